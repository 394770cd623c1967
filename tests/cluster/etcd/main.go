// etcd of the version that this Kubernetes is built against. Debian's is so old that the API server switches features off
// (consistent lists from its cache, streaming lists), which the clusters of users have.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
