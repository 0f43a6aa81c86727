# SPDX-License-Identifier: Apache-2.0
#
# json.sh RINGLOAD JSON_TOOL: what --json prints is JSON, and has the fields that programs rely on.

. "$(dirname "$0")/support.sh"

"$ringload" make "$work/x" --bytes 1000001 --shards 2 >/dev/null || fail "make"
expect 0 "$ringload" ls "$work/x" --json
fits ringload/ls
# The check itself: another version, a field that the schema lacks, and one that is missing.
for wrong in 's/"schema_version": 1/"schema_version": 2/' 's/"notes"/"remarks"/' \
  's/"dtype": "[A-Z0-9]*", //'; do
  sed "$wrong" "$work/out" | "$json" validate "$apps/ringload/schemas/ls.schema.json" \
    2>"$work/err" && fail "a schema does not see $wrong"
done
"$json" get files metadata tensors notes format <"$work/out" >"$work/values" || fail "ls"
[ "$(sed -n 2p "$work/values")" = '{"format":"pt"}' ] || fail "metadata"
[ "$(sed -n 5p "$work/values")" = '["safetensors","safetensors"]' ] || fail "format"
sed -n 1p "$work/values" | grep -q '00001-of-00002.safetensors",".*00002-of-00002' || fail "files"

# Shards that differ in a key of their metadata: every value is there, once.
mkdir "$work/differ"
for shard in 1:pt 2:tf 3:pt; do
  header='{"__metadata__":{"format":"'${shard#*:}'","by":"me"}}'
  {
    printf "\\$(printf %03o ${#header})\\0\\0\\0\\0\\0\\0\\0"
    printf %s "$header"
  } >"$work/differ/model-0000${shard%:*}-of-00003.safetensors"
done
expect 0 "$ringload" ls "$work/differ" --json
"$json" get metadata <"$work/out" >"$work/values" || fail "metadata that differ"
[ "$(cat "$work/values")" = '{"format":["pt","tf"],"by":"me"}' ] || fail "$(cat "$work/values")"

expect 0 "$ringload" load "$work/x" --json --no-progress
silent
fits ringload/load
"$json" get source bytes tensors files seconds gb_per_s seconds_to_first_tensor engine \
  engine_reason bytes_by_route.direct bytes_by_route.buffered pinned_bytes_peak device \
  bytes_in_flight bytes_wanted bytes_read <"$work/out" >"$work/values" || fail "load"
[ "$(sed -n 2p "$work/values")" = 1000001 ] || fail "bytes"
[ "$(sed -n 3p "$work/values")" = 16 ] || fail "tensors"
[ "$(sed -n 4p "$work/values")" = 2 ] || fail "files"
[ "$(sed -n 13p "$work/values")" = host ] || fail "device"
case $(sed -n 8p "$work/values") in ring | threads) ;; *) fail "engine" ;; esac
[ -n "$(sed -n 9p "$work/values")" ] || fail "the engine has no reason"
[ $(($(sed -n 10p "$work/values") + $(sed -n 11p "$work/values"))) -ge 1000001 ] || fail "routes"
[ "$(sed -n 15p "$work/values")" = 1000001 ] || fail "bytes_wanted"
[ "$(sed -n 16p "$work/values")" -ge 1000001 ] || fail "bytes_read"
[ "$(wc -l <"$work/out")" -eq 1 ] || fail "one object, one line"
"$json" get threads header_bytes per_file.0.header_bytes per_file.1.header_bytes \
  <"$work/out" >"$work/values" || fail "threads and headers"
[ "$(sed -n 1p "$work/values")" -ge 5 ] || fail "threads"
headers=$(($(sed -n 3p "$work/values") + $(sed -n 4p "$work/values")))
[ "$(sed -n 2p "$work/values")" -eq "$headers" ] || fail "header_bytes"
for file in 0 1; do
  "$json" get per_file.$file.header_bytes per_file.$file.seconds_device_wait \
    <"$work/out" >"$work/values" || fail "per_file $file"
  header=$(($(od -A n -t u8 -N 8 "$work/x/model-0000$((file + 1))-of-00002.safetensors") + 8))
  [ "$(sed -n 1p "$work/values")" = "$header" ] || fail "header_bytes of file $file"
  "$json" get per_file.$file.path per_file.$file.bytes per_file.$file.bytes_read \
    per_file.$file.seconds_reading per_file.$file.gb_per_s <"$work/out" >"$work/values" ||
    fail "per_file $file"
  sed -n 1p "$work/values" | grep -q "0000$((file + 1))-of-00002.safetensors" || fail "its path"
  [ "$(sed -n 3p "$work/values")" -ge 450000 ] || fail "bytes_read of file $file"
done

expect 0 "$ringload" sum "$work/x" --json
fits ringload/sum
"$json" get load.bytes tensors <"$work/out" >/dev/null || fail "sum"

# Orders are kept, and said.
for route in direct buffered; do
  can_load "$work/x" --route $route || continue
  expect 0 "$ringload" load "$work/x" --json --route $route --engine threads
  [ "$("$json" get engine <"$work/out")" = threads ] || fail "engine threads"
  [ "$("$json" get bytes_by_route.$route <"$work/out")" -ge 1000001 ] || fail "route $route"
done

# A name of every kind of character. In the header: quote, backslash, line's end, U+0001, euro.
header='{"a\"b\\c\nd\u0001e\u20acf":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}'
{
  printf "\\$(printf %03o ${#header})\\0\\0\\0\\0\\0\\0\\0"
  printf %s "$header"
  printf xyz
} >"$work/name.safetensors"
euro=$(printf '\342\202\254')
expect 0 "$ringload" ls "$work/name.safetensors" --json --profile reference
"$json" get tensors <"$work/out" >"$work/values" || fail "ls of an odd name"
fits ringload/ls
expect 0 "$ringload" ls "$work/name.safetensors" --profile reference
grep -q -F "a\"b\\c\\nd\\x01e${euro}f" "$work/out" || fail "table: $(cat "$work/out")"
expect 0 "$ringload" sum "$work/name.safetensors" --profile reference
sum=$(printf xyz | sha256sum)
[ "$(cat "$work/out")" = "\\${sum%% *}  a\"b\\\\c\\nd\\x01e${euro}f" ] || fail "$(cat "$work/out")"
expect 1 "$ringload" ls "$work/name.safetensors"
complains '^ringload: error: '

# The trace of a load: JSON too, with a lane for each slot that was used; and no file if it fails.
expect 0 "$ringload" load "$work/x" --no-progress --trace "$work/trace.json"
"$json" get displayTimeUnit traceEvents <"$work/trace.json" >"$work/values" || fail "trace"
for lane in opening landed 'handed out' 'slot 0'; do
  grep -q "\"thread_name\",\"args\":{\"name\":\"$lane\"}" "$work/values" || fail "no lane $lane"
done
expect 1 "$ringload" load "$work/nothing" --no-progress --trace "$work/none.json"
[ ! -e "$work/none.json" ] || fail "a trace of a load that failed"
[ -z "$(find "$work" -name '.ringload-*')" ] || fail "a temporary file is left"

# Its allocations: as many releases as there were, or fewer, since the process ends with some.
expect 0 "$ringload" load "$work/x" --no-progress --allocation-log "$work/allocations.csv"
[ "$(sed -n 1p "$work/allocations.csv")" = timestamp,call,pointer,size,stack ] || fail "columns"
[ "$(grep -c ',mmap,0x' "$work/allocations.csv")" -ge 1 ] || fail "no allocation"
expect 1 "$ringload" load "$work/x" --no-progress --allocation-log "$work/no/folder.csv"
complains "no/folder.csv"
