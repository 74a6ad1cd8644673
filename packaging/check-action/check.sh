#!/bin/sh
# schedcast check with its promises and settings from the environment, one a line. A line
# `variant NAME` among the settings begins another column. The exit code is that of `check`: 0 if
# every promise is kept, 1 if one is broken. The table is also in the summary of the step.
set -eu
# Names have no blanks, so that words are flags and their values.
# shellcheck disable=SC2086
set -- check "$RECORDING" ${TARGET:-} --json "$JSON"
while IFS= read -r line; do
	[ -z "$line" ] || set -- "$@" --slo "$line"
done <<END
$SLO
END
while IFS= read -r line; do
	case "$line" in
	'') ;;
	'variant '*) set -- "$@" --variant "${line#variant }" ;;
	*) set -- "$@" --set "$line" ;;
	esac
done <<END
${SETTINGS:-}
END
code=0
table=$("$PROGRAM" --quiet "$@") || code=$?
printf '%s\n' "$table"
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
	printf '```\n%s\n```\n' "$table" >>"$GITHUB_STEP_SUMMARY"
fi
exit "$code"
