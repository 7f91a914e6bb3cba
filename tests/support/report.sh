# Sourced by test scripts: the same last line as report.h has.
#   check NAME COMMAND...   one case: passed if the command ends with 0, skipped if with 77 (its last
#                           line says why); else failed, and what it printed is shown
#   finish                  prints the last line and ends the script

passed=0 failed=0 skipped=0

check() {
    local name=$1 out status=0
    shift
    out=$("$@" 2>&1) || status=$?
    case $status in
    0)
        passed=$((passed + 1))
        echo "ok: $name"
        ;;
    77)
        skipped=$((skipped + 1))
        echo "skipped: $name: $(echo "$out" | tail -n 1 | sed 's/^skipped: //')"
        ;;
    *)
        failed=$((failed + 1))
        echo "$out" | tail -n 60
        echo "failed: $name ($*)"
        ;;
    esac
}

finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
    exit
}
