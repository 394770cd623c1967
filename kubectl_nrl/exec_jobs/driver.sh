# shellcheck shell=sh disable=SC2013,SC2046,SC2086,SC3045
# Starts a run's driver on a Ray head and answers for it: sh driver.sh start|keep|drive|look|stop DIRECTORY [ARGUMENTS]
#
# What it remembers stands in names, not in contents: a symbolic link or a rename is there whole or not at all, and needs no room
# on a full disk. In DIRECTORY:
#   mark -> the submission that put the files here     life -> the life of the container in which the driver was started
#   keeper, driver -> PID-STARTTIME                    alive, renamed to ended.STATUS.TIME when the driver has ended
#   stop: somebody asked it to end                     script: what is run; log: all that it says
#
# It needs sh, /proc, and of programs: date dd env grep ln ls mv readlink rm setsid (or python3) sleep tail. It is run by dash,
# busybox and bash alike.

# The keeper and the driver are no children of the connection that starts them, so that none of them ends with it.

verb=$1
dir=$2
mark="KUBECTL_NRL_EXEC=$dir/"

nap() {
  sleep "${1:-0.2}" 2>/dev/null || sleep 1
}

# proc PID: sets parent, group, session and start (ticks since boot, proc_pid_stat(5)); fails for one that has ended, waited for or not.
proc() {
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  # The name in parentheses may hold spaces; what follows the last one are numbers.
  set -- ${stat##*) }
  case $1 in '' | Z | X | x) return 1 ;; esac
  parent=$2 group=$3 session=$4 start=${20}
}

# lives NAME: whether the process that the link names still is that process; sets pid, 0 where there is no link.
lives() {
  named=$(readlink "$dir/$1") || named=0-0
  pid=${named%-*}
  [ "$pid" != 0 ] && proc "$pid" && [ "$start" = "${named#*-}" ]
}

# The life of this container: a process id says nothing in another one.
life_now() {
  proc 1 || start=0
  { read -r boot </proc/sys/kernel/random/boot_id; } 2>/dev/null || boot=none
  life=$boot-$start
}

has_ended() {
  status='' ended=''
  for found in "$dir"/ended.*; do
    [ -e "$found" ] || return 1
    found=${found##*/ended.}
    status=${found%%.*} ended=${found#*.}
  done
}

# judge: sets word to what the driver is: staged, starting, running, stopping, ended, restarted, gone.
judge() {
  if has_ended; then word=ended && return; fi
  if lives keeper; then kept=1; else kept=''; fi
  if lives driver; then driven=1; else driven=''; fi
  driver=$pid
  if [ -n "$kept$driven" ]; then
    word=running
    [ -L "$dir/stop" ] && word=stopping
  elif [ ! -L "$dir/keeper" ]; then
    word=staged
  elif has_ended; then
    word=ended
  else
    life_now
    word=gone
    [ "$(readlink "$dir/life")" = "$life" ] || word=restarted
  fi
}

is_raylet() {
  { read -r name <"/proc/$1/comm"; } 2>/dev/null && [ "$name" = raylet ]
}

# members: sets left to the processes of the driver that live: those of its session, and those that were started with its
# environment and left the session. A session's number is trusted only while its driver or its keeper holds it. Ray's workers may
# have been given the environment, too (as a runtime environment): Ray ends them with the job.
members() {
  left='' others=''
  sure=''
  lives driver && sure=1
  driver=$pid
  if [ -z "$sure" ] && [ "$driver" != 0 ] && ! has_ended && lives keeper; then sure=1; fi
  if [ -n "$sure" ]; then
    for entry in /proc/[0-9]*; do
      entry=${entry#/proc/}
      if proc "$entry" && [ "$session" = "$driver" ]; then
        left="$left $entry"
        [ "$group" = "$driver" ] || others="$others $entry"
      fi
    done
  fi
  for entry in $(grep -lszF "$mark" /proc/[0-9]*/environ); do
    entry=${entry#/proc/}
    entry=${entry%/environ}
    case " $left " in *" $entry "*) continue ;; esac
    if proc "$entry" && ! is_raylet "$parent"; then
      left="$left $entry"
      others="$others $entry"
    fi
  done
}

# tell: the answer's first line, "nrl1 WORD STATUS ENDED SIZE STOP FULL PIDS", "-" for what is not known or not so.
tell() {
  asked=-
  [ -L "$dir/stop" ] && asked=stop
  set -- $left
  pids=$*
  printf 'nrl1 %s %s %s %s %s %s %s\n' \
    "$word" "${status:--}" "${ended:--}" "${size:--}" "$asked" "${full:--}" "${pids:--}"
}

# has_room: sets full where nothing can be written any more.
has_room() {
  full=''
  { printf x >"$dir/.room"; } 2>/dev/null || full=full
  rm -f "$dir/.room"
}

size_of_log() {
  size=0
  set -- $(ls -ln "$dir/log" 2>/dev/null)
  [ -z "$5" ] || size=$5
}

# look OFFSET BLOCKS TURNS: the state, and the log from OFFSET on, at most BLOCKS of 64 KiB; waits up to TURNS for news. The
# state is read first: what is read of the log of a driver that has ended is the last of it.
look() {
  turns=$3
  while
    judge
    size_of_log
    [ "$size" -le "$1" ] && [ "$word" = running ] && [ "$turns" -gt 0 ]
  do
    turns=$((turns - 1))
    nap
  done
  left='' full=''
  if [ "$2" = 0 ]; then
    case $word in ended | gone) members && has_room ;; esac
  fi
  tell
  if [ "$2" -gt 0 ] && [ "$size" -gt "$1" ]; then
    dd if="$dir/log" bs=65536 skip=$(($1 / 65536)) count="$2" 2>/dev/null | tail -c "+$(($1 % 65536 + 1))"
  fi
}

# detach COMMAND...: run it in a session of its own, outliving this shell. A shell starts background commands deaf to SIGINT, and
# what is deaf to it stays so, with all that it starts.
detach() {
  if command -v setsid >/dev/null 2>&1 && env --default-signal=INT,QUIT true 2>/dev/null; then
    env --default-signal=INT,QUIT setsid "$@" </dev/null >/dev/null 2>&1 &
  elif python3 -c '' 2>/dev/null; then
    python3 -c 'import os, signal, sys
for number in signal.SIGINT, signal.SIGQUIT: signal.signal(number, signal.SIG_DFL)
os.setsid()
os.execvp(sys.argv[1], sys.argv[1:])' "$@" </dev/null >/dev/null 2>&1 &
  elif command -v setsid >/dev/null 2>&1; then
    setsid "$@" </dev/null >/dev/null 2>&1 &
  else
    echo "neither setsid nor python3 is there" >&2
    exit 43
  fi
}

# start: start the keeper unless one was started, and wait until it is there.
start() {
  if ! has_ended && [ ! -L "$dir/keeper" ]; then
    : >>"$dir/log" && : >>"$dir/alive" || exit 40
    life_now
    ln -s "$life" "$dir/life" 2>/dev/null
    detach sh "$dir/driver.sh" keep "$dir"
    turns=400
    while [ ! -L "$dir/keeper" ]; do
      [ "$turns" -gt 0 ] || exit 44
      turns=$((turns - 1))
      nap 0.05
    done
  fi
  look 0 0 0
}

# keep: run the driver and write down how it ended; whoever makes the link first is the keeper.
keep() {
  proc $$
  ln -s "$$-$start" "$dir/keeper" 2>/dev/null || exit 0
  (
    export KUBECTL_NRL_EXEC="$dir/"
    if command -v setsid >/dev/null 2>&1; then exec setsid sh "$dir/driver.sh" drive "$dir"; fi
    exec python3 -c 'import os, sys
os.setsid()
os.execvp(sys.argv[1], sys.argv[1:])' sh "$dir/driver.sh" drive "$dir"
  ) </dev/null >>"$dir/log" 2>&1
  code=$?
  # One that was asked to end has ended when all that it started has.
  if [ -L "$dir/stop" ]; then
    while
      members
      [ -n "$left" ]
    do nap; done
  fi
  mv "$dir/alive" "$dir/ended.$code.$(date +%s)"
}

# drive: become the driver. Ray's own processes have this many files, and Ray's own job supervisor sets this environment.
drive() {
  proc $$
  ln -s "$$-$start" "$dir/driver" || exit 1
  files=$(ulimit -Sn)
  if [ "$files" != unlimited ] && [ "$files" -lt 65536 ]; then
    ulimit -Sn 65536 2>/dev/null || ulimit -Sn "$(ulimit -Hn)"
  fi
  export RAY_ADDRESS="${RAY_ADDRESS:-auto}" PYTHONUNBUFFERED="${PYTHONUNBUFFERED:-1}"
  exec sh "$dir/script"
}

# stop SIGNAL TURNS: send it ("-": nothing) to all processes of the driver, and wait up to TURNS until none is left and the end is
# written down. A kill is sent to what appears meanwhile, too.
stop() {
  judge
  case $word in running | stopping) ln -s asked "$dir/stop" 2>/dev/null ;; esac
  turns=$2 signal=$1
  while
    members
    if [ "$signal" != - ] && [ -n "$left" ]; then
      # To the group at once: a shell that saw its command end must not go on to the next one.
      [ "$driver" = 0 ] || [ -z "$sure" ] || kill -s "$signal" -- "-$driver" 2>/dev/null
      for entry in $others; do kill -s "$signal" "$entry" 2>/dev/null; done
    fi
    # Not yet sent to a driver that is only starting.
    [ "$signal" = KILL ] || [ -z "$left" ] || signal=-
    judge
    case $word in running | stopping) ;; *) [ -n "$left" ] ;; esac && [ "$turns" -gt 0 ]
  do
    turns=$((turns - 1))
    nap
  done
  size_of_log
  members
  tell
}

shift 2
"$verb" "$@"
