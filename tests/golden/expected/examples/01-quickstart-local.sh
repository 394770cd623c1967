# kubectl nrl: launches run 20260102-030405-test
nrl_dir=$(mktemp -d "${TMPDIR:-/tmp}/nrl-XXXXXXXX") || exit 1
cat >"$nrl_dir/recipe.yaml" <<'NRL_9387279a1eb28f6f'
grpo:
  num_prompts_per_step: 256
  num_generations_per_prompt: 32
  max_num_steps: 60
  normalize_rewards: true
  use_leave_one_out_baseline: true
  val_period: 10
  max_val_samples: 500
  seed: 42
loss_fn:
  reference_policy_kl_penalty: 0.05
  ratio_clip_min: 0.2
  ratio_clip_max: 0.2
policy:
  model_name: digits-mlp-128
  train_global_batch_size: 512
  max_grad_norm: 1.0
  optimizer:
    kwargs:
      lr: 0.01
      weight_decay: 0.0
  generation:
    temperature: 1.0
    colocated:
      enabled: true
data:
  dataset_name: addition
  num_digits: 2
checkpointing:
  enabled: true
  checkpoint_dir: /tmp/nrl-quickstart/checkpoints
  metric_name: val:accuracy
  higher_is_better: true
  keep_top_k: 2
  save_period: 20
  resume: false
logger:
  log_dir: /tmp/nrl-quickstart/logs
  wandb_enabled: false
  wandb:
    project: nrl-quickstart
    name: ${data.dataset_name}-${policy.model_name}
cluster:
  gpus_per_node: 0
  num_nodes: 1
NRL_9387279a1eb28f6f
cat >"$nrl_dir/entrypoint.sh" <<'NRL_2a4c28baa7e1bb21'
python3 -u examples/01-quickstart/grpo.py --config "$NRL_RECIPE"
NRL_2a4c28baa7e1bb21
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
