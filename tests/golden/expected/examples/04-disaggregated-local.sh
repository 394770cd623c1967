# kubectl nrl: launches run 20260102-030405-test
nrl_dir=$(mktemp -d "${TMPDIR:-/tmp}/nrl-XXXXXXXX") || exit 1
cat >"$nrl_dir/recipe.yaml" <<'NRL_9ae746c699f113de'
cluster:
  num_nodes: 1
  gpus_per_node: 0
grpo:
  max_num_steps: 40
  num_generations_per_prompt: 128
policy:
  optimizer:
    kwargs:
      lr: 3.0
NRL_9ae746c699f113de
cat >"$nrl_dir/entrypoint.sh" <<'NRL_dba8e7f5b1a741f0'
python3 -u train.py --config "$NRL_RECIPE" --gym http://127.0.0.1:29090 --generation http://127.0.0.1:28089
NRL_dba8e7f5b1a741f0
export NRL_K8S_RUN_ID=20260102-030405-test
export RAY_JOB_SUBMISSION_ID="${RAY_JOB_SUBMISSION_ID:-20260102-030405-test}"
export NRL_RECIPE="$nrl_dir/recipe.yaml"
if command -v bash >/dev/null 2>&1; then
  set -- bash -o pipefail "$nrl_dir/entrypoint.sh"
else
  set -- sh "$nrl_dir/entrypoint.sh"
fi
"$@" </dev/null
nrl_status=$?
rm -rf "$nrl_dir"
exit "$nrl_status"
