# Made from the command tree by docs/generate.py; do not edit.
_deltacli() {
    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}"
    local command="" word
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case "${command:+$command }$word" in share|paimon|"share recipient"|history|snapshot|validate|head|checkpoint|vacuum|widen-type|"share serve"|"share check"|"share recipient add"|"share recipient list"|"share recipient rotate"|"share recipient revoke"|"share recipient grant"|"share shares"|"share schemas"|"share tables"|"share version"|"share metadata"|"share files"|"share changes"|"share head"|"share download"|"paimon list"|"paimon show"|"paimon diff"|"paimon validate"|"paimon alter"|"paimon expire"|"paimon convert"|completion|doctor) command="${command:+$command }$word";; esac
    done
    case "$command:$prev" in
        history:--limit|history:-n) COMPREPLY=(); return;;
        history:--from) COMPREPLY=(); return;;
        history:--to) COMPREPLY=(); return;;
        history:--operation) COMPREPLY=(); return;;
        history:--output|history:-o) COMPREPLY=($(compgen -W "auto table json jsonl csv tsv" -- "$cur")); return;;
        history:--output-file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        history:--fields) COMPREPLY=(); return;;
        history:--tz) COMPREPLY=(); return;;
        history:--storage-option) COMPREPLY=(); return;;
        snapshot:--at) COMPREPLY=(); return;;
        snapshot:--diff) COMPREPLY=(); return;;
        snapshot:--engine) COMPREPLY=($(compgen -W "auto local spark" -- "$cur")); return;;
        snapshot:--spark-master) COMPREPLY=(); return;;
        snapshot:--spark-conf) COMPREPLY=(); return;;
        snapshot:--output|snapshot:-o) COMPREPLY=($(compgen -W "auto table json jsonl csv tsv" -- "$cur")); return;;
        snapshot:--output-file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        snapshot:--fields) COMPREPLY=(); return;;
        snapshot:--tz) COMPREPLY=(); return;;
        snapshot:--storage-option) COMPREPLY=(); return;;
        validate:--level) COMPREPLY=($(compgen -W "log files footers data" -- "$cur")); return;;
        validate:--sample) COMPREPLY=(); return;;
        validate:--select) COMPREPLY=(); return;;
        validate:--ignore) COMPREPLY=(); return;;
        validate:--fail-on) COMPREPLY=($(compgen -W "error warning info never" -- "$cur")); return;;
        validate:--baseline) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        validate:--write-baseline) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        validate:--max-findings) COMPREPLY=(); return;;
        validate:--explain) COMPREPLY=(); return;;
        validate:--engine) COMPREPLY=($(compgen -W "auto local spark" -- "$cur")); return;;
        validate:--spark-master) COMPREPLY=(); return;;
        validate:--spark-conf) COMPREPLY=(); return;;
        validate:--output|validate:-o) COMPREPLY=($(compgen -W "auto table json jsonl csv tsv junit sarif github" -- "$cur")); return;;
        validate:--output-file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        validate:--fields) COMPREPLY=(); return;;
        validate:--tz) COMPREPLY=(); return;;
        validate:--storage-option) COMPREPLY=(); return;;
        head:--rows|head:-n) COMPREPLY=(); return;;
        head:--at) COMPREPLY=(); return;;
        head:--where) COMPREPLY=(); return;;
        head:--columns) COMPREPLY=(); return;;
        head:--engine) COMPREPLY=($(compgen -W "auto local spark" -- "$cur")); return;;
        head:--spark-master) COMPREPLY=(); return;;
        head:--spark-conf) COMPREPLY=(); return;;
        head:--output|head:-o) COMPREPLY=($(compgen -W "auto table json jsonl csv tsv" -- "$cur")); return;;
        head:--output-file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        head:--fields) COMPREPLY=(); return;;
        head:--tz) COMPREPLY=(); return;;
        head:--storage-option) COMPREPLY=(); return;;
        checkpoint:--at) COMPREPLY=(); return;;
        checkpoint:--kind) COMPREPLY=($(compgen -W "auto classic v2 v2-parquet" -- "$cur")); return;;
        checkpoint:--stats) COMPREPLY=($(compgen -W "table json struct both" -- "$cur")); return;;
        checkpoint:--engine) COMPREPLY=($(compgen -W "auto local spark" -- "$cur")); return;;
        checkpoint:--spark-master) COMPREPLY=(); return;;
        checkpoint:--spark-conf) COMPREPLY=(); return;;
        checkpoint:--output|checkpoint:-o) COMPREPLY=($(compgen -W "auto table json jsonl csv tsv" -- "$cur")); return;;
        checkpoint:--output-file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        checkpoint:--fields) COMPREPLY=(); return;;
        checkpoint:--tz) COMPREPLY=(); return;;
        checkpoint:--storage-option) COMPREPLY=(); return;;
        vacuum:--retain) COMPREPLY=(); return;;
        vacuum:--mode) COMPREPLY=($(compgen -W "full lite" -- "$cur")); return;;
        vacuum:--inventory) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        vacuum:--inventory-encoding) COMPREPLY=($(compgen -W "none url" -- "$cur")); return;;
        vacuum:--prefix) COMPREPLY=(); return;;
        vacuum:--explain) COMPREPLY=(); return;;
        vacuum:--metrics-file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        vacuum:--engine) COMPREPLY=($(compgen -W "auto local spark" -- "$cur")); return;;
        vacuum:--spark-master) COMPREPLY=(); return;;
        vacuum:--spark-conf) COMPREPLY=(); return;;
        vacuum:--output|vacuum:-o) COMPREPLY=($(compgen -W "auto table json jsonl csv tsv" -- "$cur")); return;;
        vacuum:--output-file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        vacuum:--fields) COMPREPLY=(); return;;
        vacuum:--tz) COMPREPLY=(); return;;
        vacuum:--storage-option) COMPREPLY=(); return;;
        widen-type:--engine) COMPREPLY=($(compgen -W "auto local spark" -- "$cur")); return;;
        widen-type:--spark-master) COMPREPLY=(); return;;
        widen-type:--spark-conf) COMPREPLY=(); return;;
        widen-type:--output|widen-type:-o) COMPREPLY=($(compgen -W "auto table json jsonl csv tsv" -- "$cur")); return;;
        widen-type:--output-file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        widen-type:--fields) COMPREPLY=(); return;;
        widen-type:--tz) COMPREPLY=(); return;;
        widen-type:--storage-option) COMPREPLY=(); return;;
        "share serve:--config"|"share serve:-c") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share serve:--host") COMPREPLY=(); return;;
        "share serve:--port") COMPREPLY=(); return;;
        "share serve:--public-url") COMPREPLY=(); return;;
        "share serve:--profile-out") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share serve:--expires") COMPREPLY=(); return;;
        "share serve:--tls-cert") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share serve:--tls-key") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share serve:--admin-port") COMPREPLY=(); return;;
        "share serve:--audit-log") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share serve:--storage-option") COMPREPLY=(); return;;
        "share check:--config"|"share check:-c") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share check:--output"|"share check:-o") COMPREPLY=($(compgen -W "auto table json jsonl csv tsv" -- "$cur")); return;;
        "share check:--output-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share check:--fields") COMPREPLY=(); return;;
        "share check:--tz") COMPREPLY=(); return;;
        "share check:--storage-option") COMPREPLY=(); return;;
        "share recipient add:--config"|"share recipient add:-c") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share recipient add:--share") COMPREPLY=(); return;;
        "share recipient add:--expires") COMPREPLY=(); return;;
        "share recipient add:--profile-out") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share recipient list:--config"|"share recipient list:-c") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share recipient list:--output"|"share recipient list:-o") COMPREPLY=($(compgen -W "auto table json jsonl csv tsv" -- "$cur")); return;;
        "share recipient list:--output-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share recipient list:--fields") COMPREPLY=(); return;;
        "share recipient list:--tz") COMPREPLY=(); return;;
        "share recipient rotate:--config"|"share recipient rotate:-c") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share recipient rotate:--grace") COMPREPLY=(); return;;
        "share recipient rotate:--expires") COMPREPLY=(); return;;
        "share recipient rotate:--profile-out") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share recipient revoke:--config"|"share recipient revoke:-c") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share recipient revoke:--output"|"share recipient revoke:-o") COMPREPLY=($(compgen -W "auto table json jsonl csv tsv" -- "$cur")); return;;
        "share recipient revoke:--output-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share recipient revoke:--fields") COMPREPLY=(); return;;
        "share recipient revoke:--tz") COMPREPLY=(); return;;
        "share recipient grant:--config"|"share recipient grant:-c") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share recipient grant:--output"|"share recipient grant:-o") COMPREPLY=($(compgen -W "auto table json jsonl csv tsv" -- "$cur")); return;;
        "share recipient grant:--output-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share recipient grant:--fields") COMPREPLY=(); return;;
        "share recipient grant:--tz") COMPREPLY=(); return;;
        "share shares:--profile") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share shares:--timeout") COMPREPLY=(); return;;
        "share shares:--output"|"share shares:-o") COMPREPLY=($(compgen -W "auto table json jsonl csv tsv" -- "$cur")); return;;
        "share shares:--output-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share shares:--fields") COMPREPLY=(); return;;
        "share shares:--tz") COMPREPLY=(); return;;
        "share shares:--storage-option") COMPREPLY=(); return;;
        "share schemas:--profile") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share schemas:--timeout") COMPREPLY=(); return;;
        "share schemas:--output"|"share schemas:-o") COMPREPLY=($(compgen -W "auto table json jsonl csv tsv" -- "$cur")); return;;
        "share schemas:--output-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share schemas:--fields") COMPREPLY=(); return;;
        "share schemas:--tz") COMPREPLY=(); return;;
        "share schemas:--storage-option") COMPREPLY=(); return;;
        "share tables:--schema") COMPREPLY=(); return;;
        "share tables:--profile") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share tables:--timeout") COMPREPLY=(); return;;
        "share tables:--output"|"share tables:-o") COMPREPLY=($(compgen -W "auto table json jsonl csv tsv" -- "$cur")); return;;
        "share tables:--output-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share tables:--fields") COMPREPLY=(); return;;
        "share tables:--tz") COMPREPLY=(); return;;
        "share tables:--storage-option") COMPREPLY=(); return;;
        "share version:--from") COMPREPLY=(); return;;
        "share version:--profile") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share version:--timeout") COMPREPLY=(); return;;
        "share version:--output"|"share version:-o") COMPREPLY=($(compgen -W "auto table json jsonl csv tsv" -- "$cur")); return;;
        "share version:--output-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share version:--fields") COMPREPLY=(); return;;
        "share version:--tz") COMPREPLY=(); return;;
        "share version:--storage-option") COMPREPLY=(); return;;
        "share metadata:--at") COMPREPLY=(); return;;
        "share metadata:--format") COMPREPLY=($(compgen -W "auto parquet delta" -- "$cur")); return;;
        "share metadata:--profile") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share metadata:--timeout") COMPREPLY=(); return;;
        "share metadata:--output"|"share metadata:-o") COMPREPLY=($(compgen -W "auto table json jsonl csv tsv" -- "$cur")); return;;
        "share metadata:--output-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share metadata:--fields") COMPREPLY=(); return;;
        "share metadata:--tz") COMPREPLY=(); return;;
        "share metadata:--storage-option") COMPREPLY=(); return;;
        "share files:--at") COMPREPLY=(); return;;
        "share files:--where") COMPREPLY=(); return;;
        "share files:--limit") COMPREPLY=(); return;;
        "share files:--json-hint") COMPREPLY=(); return;;
        "share files:--sql-hint") COMPREPLY=(); return;;
        "share files:--from") COMPREPLY=(); return;;
        "share files:--to") COMPREPLY=(); return;;
        "share files:--page-size") COMPREPLY=(); return;;
        "share files:--format") COMPREPLY=($(compgen -W "auto parquet delta" -- "$cur")); return;;
        "share files:--profile") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share files:--timeout") COMPREPLY=(); return;;
        "share files:--output"|"share files:-o") COMPREPLY=($(compgen -W "auto table json jsonl csv tsv" -- "$cur")); return;;
        "share files:--output-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share files:--fields") COMPREPLY=(); return;;
        "share files:--tz") COMPREPLY=(); return;;
        "share files:--storage-option") COMPREPLY=(); return;;
        "share changes:--from") COMPREPLY=(); return;;
        "share changes:--to") COMPREPLY=(); return;;
        "share changes:--page-size") COMPREPLY=(); return;;
        "share changes:--format") COMPREPLY=($(compgen -W "auto parquet delta" -- "$cur")); return;;
        "share changes:--profile") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share changes:--timeout") COMPREPLY=(); return;;
        "share changes:--output"|"share changes:-o") COMPREPLY=($(compgen -W "auto table json jsonl csv tsv" -- "$cur")); return;;
        "share changes:--output-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share changes:--fields") COMPREPLY=(); return;;
        "share changes:--tz") COMPREPLY=(); return;;
        "share changes:--storage-option") COMPREPLY=(); return;;
        "share head:--rows"|"share head:-n") COMPREPLY=(); return;;
        "share head:--at") COMPREPLY=(); return;;
        "share head:--where") COMPREPLY=(); return;;
        "share head:--columns") COMPREPLY=(); return;;
        "share head:--format") COMPREPLY=($(compgen -W "auto parquet delta" -- "$cur")); return;;
        "share head:--engine") COMPREPLY=($(compgen -W "auto local spark" -- "$cur")); return;;
        "share head:--spark-master") COMPREPLY=(); return;;
        "share head:--spark-conf") COMPREPLY=(); return;;
        "share head:--profile") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share head:--timeout") COMPREPLY=(); return;;
        "share head:--output"|"share head:-o") COMPREPLY=($(compgen -W "auto table json jsonl csv tsv" -- "$cur")); return;;
        "share head:--output-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share head:--fields") COMPREPLY=(); return;;
        "share head:--tz") COMPREPLY=(); return;;
        "share head:--storage-option") COMPREPLY=(); return;;
        "share download:--as") COMPREPLY=($(compgen -W "delta parquet" -- "$cur")); return;;
        "share download:--at") COMPREPLY=(); return;;
        "share download:--where") COMPREPLY=(); return;;
        "share download:--columns") COMPREPLY=(); return;;
        "share download:--page-size") COMPREPLY=(); return;;
        "share download:--format") COMPREPLY=($(compgen -W "auto parquet delta" -- "$cur")); return;;
        "share download:--profile") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share download:--timeout") COMPREPLY=(); return;;
        "share download:--output"|"share download:-o") COMPREPLY=($(compgen -W "auto table json jsonl csv tsv" -- "$cur")); return;;
        "share download:--output-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "share download:--fields") COMPREPLY=(); return;;
        "share download:--tz") COMPREPLY=(); return;;
        "share download:--storage-option") COMPREPLY=(); return;;
        "paimon list:--branch") COMPREPLY=(); return;;
        "paimon list:--output"|"paimon list:-o") COMPREPLY=($(compgen -W "auto table json jsonl csv tsv" -- "$cur")); return;;
        "paimon list:--output-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "paimon list:--fields") COMPREPLY=(); return;;
        "paimon list:--tz") COMPREPLY=(); return;;
        "paimon list:--storage-option") COMPREPLY=(); return;;
        "paimon show:--at") COMPREPLY=(); return;;
        "paimon show:--branch") COMPREPLY=(); return;;
        "paimon show:--output"|"paimon show:-o") COMPREPLY=($(compgen -W "auto table json jsonl csv tsv" -- "$cur")); return;;
        "paimon show:--output-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "paimon show:--fields") COMPREPLY=(); return;;
        "paimon show:--tz") COMPREPLY=(); return;;
        "paimon show:--storage-option") COMPREPLY=(); return;;
        "paimon diff:--branch") COMPREPLY=(); return;;
        "paimon diff:--output"|"paimon diff:-o") COMPREPLY=($(compgen -W "auto table json jsonl csv tsv" -- "$cur")); return;;
        "paimon diff:--output-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "paimon diff:--fields") COMPREPLY=(); return;;
        "paimon diff:--tz") COMPREPLY=(); return;;
        "paimon diff:--storage-option") COMPREPLY=(); return;;
        "paimon validate:--branch") COMPREPLY=(); return;;
        "paimon validate:--select") COMPREPLY=(); return;;
        "paimon validate:--ignore") COMPREPLY=(); return;;
        "paimon validate:--fail-on") COMPREPLY=($(compgen -W "error warning info never" -- "$cur")); return;;
        "paimon validate:--baseline") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "paimon validate:--max-findings") COMPREPLY=(); return;;
        "paimon validate:--output"|"paimon validate:-o") COMPREPLY=($(compgen -W "auto table json jsonl csv tsv junit sarif github" -- "$cur")); return;;
        "paimon validate:--output-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "paimon validate:--fields") COMPREPLY=(); return;;
        "paimon validate:--tz") COMPREPLY=(); return;;
        "paimon validate:--storage-option") COMPREPLY=(); return;;
        "paimon alter:--branch") COMPREPLY=(); return;;
        "paimon alter:--output"|"paimon alter:-o") COMPREPLY=($(compgen -W "auto table json jsonl csv tsv" -- "$cur")); return;;
        "paimon alter:--output-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "paimon alter:--fields") COMPREPLY=(); return;;
        "paimon alter:--tz") COMPREPLY=(); return;;
        "paimon alter:--storage-option") COMPREPLY=(); return;;
        "paimon expire:--branch") COMPREPLY=(); return;;
        "paimon expire:--older-than") COMPREPLY=(); return;;
        "paimon expire:--keep-last") COMPREPLY=(); return;;
        "paimon expire:--output"|"paimon expire:-o") COMPREPLY=($(compgen -W "auto table json jsonl csv tsv" -- "$cur")); return;;
        "paimon expire:--output-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "paimon expire:--fields") COMPREPLY=(); return;;
        "paimon expire:--tz") COMPREPLY=(); return;;
        "paimon expire:--storage-option") COMPREPLY=(); return;;
        "paimon convert:--at") COMPREPLY=(); return;;
        "paimon convert:--branch") COMPREPLY=(); return;;
        "paimon convert:--create") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "paimon convert:--column-mapping") COMPREPLY=($(compgen -W "name id none" -- "$cur")); return;;
        "paimon convert:--output"|"paimon convert:-o") COMPREPLY=($(compgen -W "auto table json jsonl csv tsv" -- "$cur")); return;;
        "paimon convert:--output-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        "paimon convert:--fields") COMPREPLY=(); return;;
        "paimon convert:--tz") COMPREPLY=(); return;;
        "paimon convert:--storage-option") COMPREPLY=(); return;;
        completion:--output-file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        doctor:--output|doctor:-o) COMPREPLY=($(compgen -W "auto table json jsonl csv tsv" -- "$cur")); return;;
        doctor:--output-file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return;;
        doctor:--fields) COMPREPLY=(); return;;
    esac
    case "$command" in
        "") COMPREPLY=($(compgen -W "history snapshot validate head checkpoint vacuum widen-type share paimon completion doctor --help --version" -- "$cur"));;
        share) COMPREPLY=($(compgen -W "serve check recipient shares schemas tables version metadata files changes head download --help" -- "$cur"));;
        paimon) COMPREPLY=($(compgen -W "list show diff validate alter expire convert --help" -- "$cur"));;
        "share recipient") COMPREPLY=($(compgen -W "add list rotate revoke grant --help" -- "$cur"));;
        history)
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--limit -n --from --to --operation --chart --allow-catalog-managed --output -o --output-file --fields --tz --storage-option --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else mapfile -t COMPREPLY < <(compgen -f -- "$cur"); fi;;
        snapshot)
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--at --files --tombstones --partitions --transactions --domains --schema --diff --engine --spark-master --spark-conf --allow-catalog-managed --output -o --output-file --fields --tz --storage-option --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else mapfile -t COMPREPLY < <(compgen -f -- "$cur"); fi;;
        validate)
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--level --sample --select --ignore --fail-on --baseline --write-baseline --max-findings --explain --list-rules --engine --spark-master --spark-conf --output -o --output-file --fields --tz --storage-option --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else mapfile -t COMPREPLY < <(compgen -f -- "$cur"); fi;;
        head)
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--rows -n --at --where --columns --engine --spark-master --spark-conf --allow-catalog-managed --output -o --output-file --fields --tz --storage-option --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else mapfile -t COMPREPLY < <(compgen -f -- "$cur"); fi;;
        checkpoint)
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--at --kind --stats --force --cleanup --dry-run --yes -y --engine --spark-master --spark-conf --output -o --output-file --fields --tz --storage-option --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else mapfile -t COMPREPLY < <(compgen -f -- "$cur"); fi;;
        vacuum)
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--retain --mode --inventory --inventory-encoding --prefix --explain --dry-run --yes -y --no-log-commits --log-commits --metrics-file --allow-short-retention --allow-large --allow-nested --engine --spark-master --spark-conf --output -o --output-file --fields --tz --storage-option --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else mapfile -t COMPREPLY < <(compgen -f -- "$cur"); fi;;
        widen-type)
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--enable --status --rewrite --drop-feature --dry-run --yes -y --engine --spark-master --spark-conf --output -o --output-file --fields --tz --storage-option --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else mapfile -t COMPREPLY < <(compgen -f -- "$cur"); fi;;
        "share serve")
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--config -c --host --port --public-url --profile-out --expires --tls-cert --tls-key --insecure --admin-port --audit-log --storage-option --quiet -q --verbose -v --debug --help -h" -- "$cur"))
            else mapfile -t COMPREPLY < <(compgen -f -- "$cur"); fi;;
        "share check")
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--config -c --output -o --output-file --fields --tz --storage-option --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else COMPREPLY=(); fi;;
        "share recipient add")
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--config -c --share --expires --profile-out --quiet -q --debug --help -h" -- "$cur"))
            else COMPREPLY=(); fi;;
        "share recipient list")
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--config -c --output -o --output-file --fields --tz --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else COMPREPLY=(); fi;;
        "share recipient rotate")
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--config -c --grace --expires --profile-out --quiet -q --debug --help -h" -- "$cur"))
            else COMPREPLY=(); fi;;
        "share recipient revoke")
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--config -c --output -o --output-file --fields --tz --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else COMPREPLY=(); fi;;
        "share recipient grant")
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--config -c --take-back --output -o --output-file --fields --tz --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else COMPREPLY=(); fi;;
        "share shares")
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--profile --allow-http --timeout --output -o --output-file --fields --tz --storage-option --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else COMPREPLY=(); fi;;
        "share schemas")
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--profile --allow-http --timeout --output -o --output-file --fields --tz --storage-option --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else COMPREPLY=(); fi;;
        "share tables")
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--schema --profile --allow-http --timeout --output -o --output-file --fields --tz --storage-option --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else COMPREPLY=(); fi;;
        "share version")
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--from --profile --allow-http --timeout --output -o --output-file --fields --tz --storage-option --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else mapfile -t COMPREPLY < <(compgen -f -- "$cur"); fi;;
        "share metadata")
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--at --format --profile --allow-http --timeout --output -o --output-file --fields --tz --storage-option --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else mapfile -t COMPREPLY < <(compgen -f -- "$cur"); fi;;
        "share files")
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--at --where --limit --json-hint --sql-hint --from --to --page-size --format --profile --allow-http --timeout --output -o --output-file --fields --tz --storage-option --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else mapfile -t COMPREPLY < <(compgen -f -- "$cur"); fi;;
        "share changes")
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--from --to --rows --page-size --format --profile --allow-http --timeout --output -o --output-file --fields --tz --storage-option --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else mapfile -t COMPREPLY < <(compgen -f -- "$cur"); fi;;
        "share head")
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--rows -n --at --where --columns --format --engine --spark-master --spark-conf --profile --allow-http --timeout --output -o --output-file --fields --tz --storage-option --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else mapfile -t COMPREPLY < <(compgen -f -- "$cur"); fi;;
        "share download")
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--as --at --where --columns --page-size --format --profile --allow-http --timeout --output -o --output-file --fields --tz --storage-option --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else mapfile -t COMPREPLY < <(compgen -f -- "$cur"); fi;;
        "paimon list")
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--branch --output -o --output-file --fields --tz --storage-option --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else mapfile -t COMPREPLY < <(compgen -f -- "$cur"); fi;;
        "paimon show")
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--at --branch --output -o --output-file --fields --tz --storage-option --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else mapfile -t COMPREPLY < <(compgen -f -- "$cur"); fi;;
        "paimon diff")
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--branch --output -o --output-file --fields --tz --storage-option --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else mapfile -t COMPREPLY < <(compgen -f -- "$cur"); fi;;
        "paimon validate")
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--branch --allow-nullable-map-keys --select --ignore --fail-on --baseline --max-findings --output -o --output-file --fields --tz --storage-option --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else mapfile -t COMPREPLY < <(compgen -f -- "$cur"); fi;;
        "paimon alter")
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--branch --allow-lossy --filesystem-catalog --dry-run --yes -y --output -o --output-file --fields --tz --storage-option --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else mapfile -t COMPREPLY < <(compgen -f -- "$cur"); fi;;
        "paimon expire")
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--branch --older-than --keep-last --keep-for-merges --dry-run --yes -y --output -o --output-file --fields --tz --storage-option --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else mapfile -t COMPREPLY < <(compgen -f -- "$cur"); fi;;
        "paimon convert")
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--at --branch --create --column-mapping --allow-catalog-managed --allow-lossy --output -o --output-file --fields --tz --storage-option --quiet -q --verbose -v --debug --no-color --no-progress --help -h" -- "$cur"))
            else mapfile -t COMPREPLY < <(compgen -f -- "$cur"); fi;;
        completion)
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--output-file --debug --help -h" -- "$cur"))
            else COMPREPLY=($(compgen -W "bash zsh fish" -- "$cur")); fi;;
        doctor)
            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "--output -o --output-file --fields --quiet -q --debug --no-color --help -h" -- "$cur"))
            else COMPREPLY=(); fi;;
    esac
}
complete -o filenames -F _deltacli deltacli
