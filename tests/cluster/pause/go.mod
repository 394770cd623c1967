module kubectl-nrl.test/pause

go 1.24
