//! Every kind of mistake with its place and its message, and what a whole file is read into.

use std::collections::{BTreeMap, BTreeSet};

use muster_protocol::{DependencyRule, IfUnmet, OnConflict};

use crate::{Document, Mistake, Step, parse, parse_addition};

fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn read(text: &str) -> Document {
    parse(text, &BTreeMap::new()).unwrap_or_else(|mistakes| panic!("{mistakes:#?}\n{text}"))
}

fn step(fields: &str) -> Step {
    read(&format!("steps:\n  - name: a\n    run: x\n{fields}")).steps.remove(0)
}

fn mistakes(text: &str) -> Vec<Mistake> {
    parse(text, &BTreeMap::new()).expect_err(text)
}

fn lines(numbers: impl Iterator<Item = usize>, line: impl Fn(usize) -> String) -> String {
    numbers.map(line).collect::<Vec<_>>().join("\n") + "\n"
}

/// The only mistake of the text is at the place and its message has all the parts.
#[track_caller]
fn wrong(text: &str, at: (usize, usize), parts: &[&str]) {
    let found = mistakes(text);
    let [only] = found.as_slice() else { panic!("{found:#?}\n{text}") };
    assert_eq!((only.line, only.column), at, "{only}\n{text}");
    for part in parts {
        assert!(only.message.contains(part), "{part:?} is missing in: {only}\n{text}");
    }
}

/// The same for one more line of a step, which is line 4 of the text with four blanks before it.
#[track_caller]
fn wrong_field(field: &str, column: usize, parts: &[&str]) {
    wrong(&format!("steps:\n  - name: a\n    run: x\n    {field}\n"), (4, column), parts);
}

const WHOLE: &str = r#"
name: nightly
idempotency_key: night-1
max_parallel: 20
params:
  DATE: today
  REGION:
defaults:
  queue: nightly
  timeout: 1h
  delay: 1m
  cpus: 1
  memory: 1G
  env: {A: defaults, B: defaults, DATE: "overridden"}
steps:
  - name: extract
    run: ./extract.sh "$DATE"
  - name: train
    argv: [python, train.py, --epochs, 3]
    needs: [extract, {step: other, rule: all_done}]
    rule: none_failed
    if_unmet: run
    matrix: {LR: [0.10, 1e-3], SEED: [1, 2]}
    max_parallel: 2
    env: {A: step, VERSION: 1.10}
    working_dir: /data
    cpus: 2.5
    gpus: 1
    vram: 8G
    counters: {licence: 1}
    tags: [ssd, 7]
    priority: -5
    max_retries: 3
    backoff: {initial: 10s, factor: 2, max: 5m, jitter: 0.1}
    retry_on: {exit_codes: [2], signals: [kill, 15], lost: true, timeout: false, oom: false}
    oom_memory: x1.5:64G
    requeue_exit_codes: [75]
    not_before: 2026-05-05T08:33:00+02:00
    deadline: "2026-05-06T00:00:00Z"
    grace: 1m
    signal: INT
    hold: true
    unique: {key: u, on_conflict: replace}
  - {name: other, run: true, concurrency: {key: db, limit: 2}}
"#;

#[test]
fn a_whole_file_is_read() {
    let document = parse(WHOLE, &given(&[("REGION", "eu")])).unwrap();
    assert_eq!(document.name.as_deref(), Some("nightly"));
    assert_eq!((document.idempotency_key.as_deref(), document.max_parallel), (Some("night-1"), Some(20)));
    let [extract, train, other] = document.steps.as_slice() else { panic!("{document:?}") };
    assert_eq!((extract.name.as_str(), extract.line), ("extract", 16));
    assert_eq!(extract.job.command, "./extract.sh \"$DATE\"");
    assert_eq!(extract.job.name.as_deref(), Some("extract"));
    assert_eq!(
        extract.job.env,
        given(&[("A", "defaults"), ("B", "defaults"), ("DATE", "overridden"), ("REGION", "eu")])
    );
    assert_eq!(extract.job.delay_seconds, Some(60.0));
    assert_eq!(other.job.command, "true");

    assert_eq!(train.job.argv, ["python", "train.py", "--epochs", "3"]);
    let needs: Vec<_> = train.needs.iter().map(|need| (need.step.as_str(), need.rule)).collect();
    assert_eq!(needs, [("extract", DependencyRule::NoneFailed), ("other", DependencyRule::AllDone)]);
    assert!(train.job.rule.is_none() && train.job.rules.is_empty() && train.job.depends_on.is_empty());
    assert_eq!(train.elements.len(), 4);
    assert_eq!(train.elements[1], given(&[("LR", "0.10"), ("SEED", "2")]));
    assert_eq!(train.elements[2], given(&[("LR", "1e-3"), ("SEED", "1")]));
    assert_eq!(train.max_parallel, Some(2));
}

#[test]
fn every_field_of_a_step_is_taken_over() {
    let document = parse(WHOLE, &given(&[("REGION", "eu")])).unwrap();
    let job = &document.steps[1].job;
    assert_eq!(job.env["A"], "step");
    assert_eq!(job.env["VERSION"], "1.10");
    let resources = job.resources.clone().unwrap();
    assert_eq!(
        (resources.cpus, resources.memory_mb, resources.gpus, resources.vram_mb),
        (2.5, 1024, 1, 8192)
    );
    assert_eq!(resources.counters["licence"], 1);
    assert_eq!(job.tags, ["ssd", "7"]);
    assert_eq!(
        (job.priority, job.queue_name.as_deref(), job.max_retries),
        (Some(-5), Some("nightly"), Some(3))
    );
    let retry = job.retry.clone().unwrap();
    assert_eq!(
        (retry.initial_seconds, retry.factor, retry.max_seconds),
        (Some(10.0), Some(2.0), Some(300.0))
    );
    assert_eq!((retry.jitter, retry.lost, retry.timeout), (Some(0.1), Some(true), Some(false)));
    assert_eq!((retry.oom, retry.oom_memory_factor), (Some(false), Some(1.5)));
    assert_eq!(retry.oom_memory_max_mb, Some(64 * 1024));
    assert_eq!(retry.exit_codes, Some(vec![2]));
    assert_eq!(retry.signals, Some(vec!["SIGKILL".to_owned(), "SIGTERM".to_owned()]));
    assert_eq!(retry.requeue_exit_codes, Some(vec![75]));
    assert_eq!(job.timeout_seconds, Some(3600.0));
    // The start of the step replaces the start of the defaults, though it is said in another way.
    assert_eq!(job.not_before.map(|time| time.to_string()).as_deref(), Some("2026-05-05T06:33:00Z"));
    assert_eq!(job.delay_seconds, None);
    assert_eq!(job.deadline.map(|time| time.to_string()).as_deref(), Some("2026-05-06T00:00:00Z"));
    assert_eq!((job.grace_seconds, job.stop_signal.as_deref(), job.hold), (Some(60), Some("SIGINT"), true));
    let other = &document.steps[2].job;
    assert_eq!(other.concurrency.as_ref().map(|it| (it.key.as_str(), it.limit)), Some(("db", 2)));
    assert_eq!(job.unique.as_ref().map(|it| it.on_conflict), Some(OnConflict::Replace));
    assert_eq!(job.if_unmet, Some(IfUnmet::Run));
}

#[test]
fn json_mappings_of_steps_anchors_and_merges_are_fine() {
    let json = "{\n\t\"steps\": [{\"name\": \"a\", \"run\": \"echo \\\"hi\\\"\"},\n\t{\"name\": \"b\", \"argv\": [\"x\", \"a/b\\/c\"], \"needs\": \"a\"}]\n}\n";
    let document = read(json);
    assert_eq!(document.steps[0].job.command, "echo \"hi\"");
    assert_eq!(document.steps[1].job.argv, ["x", "a/b/c"]);
    assert_eq!(document.steps[1].needs[0].step, "a");

    let emoji = read(r#"{"steps": [{"name": "a", "run": "echo \ud83d\ude00"}]}"#);
    assert_eq!(emoji.steps[0].job.command, "echo \u{1f600}");

    let mapped = read("steps:\n  a: {run: x}\n  b:\n    run: y\n    needs: a\n");
    assert_eq!(
        mapped.steps.iter().map(|step| (step.name.as_str(), step.line)).collect::<Vec<_>>(),
        [("a", 2), ("b", 3)]
    );

    let merged = read(
        "steps:\n  - &base {name: a, run: x, cpus: 2, env: &e {A: b}}\n  - <<: *base\n    name: b\n    cpus: 1\n    env: *e\n",
    );
    assert_eq!(merged.steps[1].job.command, "x");
    assert_eq!(merged.steps[1].job.resources.as_ref().map(|amounts| amounts.cpus), Some(1.0));
    assert_eq!(merged.steps[1].job.env["A"], "b");

    let blocks = read("\u{feff}---\nsteps:\n  - name: a\n    run: |\n      echo one\n      echo two\n...\n");
    assert_eq!(blocks.steps[0].job.command, "echo one\necho two\n");
}

#[test]
fn each_item_and_each_index_is_a_job() {
    let items = step("    each: [a, 07, {SIZE: 5, NAME: x, MORE: [1, true, ~]}]\n").elements;
    assert_eq!(items[0], given(&[("MUSTER_ARRAY_ITEM", "a")]));
    assert_eq!(items[1], given(&[("MUSTER_ARRAY_ITEM", "07")]));
    assert_eq!(items[2]["SIZE"], "5");
    assert_eq!(items[2]["MORE"], "[1,true,null]");
    let object: serde_json::Value = serde_json::from_str(&items[2]["MUSTER_ARRAY_ITEM"]).unwrap();
    assert_eq!(object, serde_json::json!({"SIZE": 5, "NAME": "x", "MORE": [1, true, null]}));

    let array = step("    array: 10-12,20\n");
    assert_eq!(array.elements.len(), 4);
    assert_eq!(array.indices, [10, 11, 12, 20]);
    assert!(step("").elements.is_empty());
}

#[test]
fn short_forms() {
    let job = step("    concurrency: db\n    unique: nightly\n    backoff: 5s\n").job;
    assert_eq!(job.concurrency.map(|it| (it.key, it.limit)), Some(("db".to_owned(), 1)));
    assert_eq!(job.unique.map(|it| it.on_conflict), Some(OnConflict::Existing));
    assert_eq!(job.retry.and_then(|retry| retry.initial_seconds), Some(5.0));
}

#[test]
fn files_that_are_no_pipeline() {
    for text in ["", "  \n", "# nothing\n", "---\n", "~"] {
        wrong(text, (1, 1), &["empty", "steps:"]);
    }
    wrong("- a\n- b\n", (1, 1), &["a mapping", "a list"]);
    wrong("just text", (1, 1), &["a mapping", "a single value"]);
    wrong("name: x\n", (1, 1), &["steps:"]);
    wrong("steps:\n", (1, 1), &["steps is empty"]);
    wrong("name: a\nsteps: []\n", (2, 1), &["steps is empty"]);
    wrong("steps: {}\n", (1, 1), &["steps is empty"]);
    wrong("steps: all\n", (1, 8), &["list of steps"]);
    wrong("steps: [{name: a, run: x}]\n---\nsteps: []\n", (2, 1), &["second document"]);
}

#[test]
fn what_is_no_yaml() {
    wrong("steps:\n\t- name: a\n", (2, 2), &["tab", "blanks"]);
    let found = mistakes("steps:\n  - name: a\n    run: echo: b: c\n");
    assert_eq!(found[0].line, 3, "{found:?}");
    assert!(found[0].message.contains("quotes"), "{found:?}");
    assert_eq!(mistakes("steps: [a, b\n").len(), 1);
    assert_eq!(mistakes("steps: *nothing\n").len(), 1);
    assert!(mistakes("steps: &a [*a]\n")[0].message.contains("contains it"));
    wrong("steps: [{name: a, run: !foo x}]", (1, 24), &["!foo", "remove"]);
    wrong("steps: [{name: a, run: x, ? [a] : b}]", (1, 29), &["single word"]);
}

#[test]
fn unknown_and_repeated_keys() {
    wrong("nmae: x\nsteps: [{name: a, run: x}]\n", (1, 1), &["\"nmae\"", "did you mean name?"]);
    wrong_field("timout: 5m", 5, &["a step has no field \"timout\"", "did you mean timeout?"]);
    wrong_field("zzz: 5m", 5, &["\"zzz\"", "it may have name, run"]);
    wrong_field("run: y", 5, &["\"run\" stands here twice, first in line 3"]);
    wrong_field("env: {A: 1, A: 2}", 17, &["\"A\" stands here twice"]);
    wrong_field("backoff: {initial: 1s, facter: 2}", 28, &["did you mean factor?"]);
    wrong_field("retry_on: {codes: [1]}", 16, &["retry_on has no field"]);
    wrong_field("concurrency: {key: a, limits: 2}", 27, &["did you mean limit?"]);
    wrong_field("unique: {key: a, onconflict: replace}", 22, &["did you mean on_conflict?"]);
    wrong("defaults: {run: x}\nsteps: [{name: a, run: x}]\n", (1, 12), &["a step's own"]);
    wrong("defaults: {qeue: x}\nsteps: [{name: a, run: x}]\n", (1, 12), &["did you mean queue?"]);
}

#[test]
fn wrong_types_and_values() {
    wrong_field("cpus: many", 11, &["cpus is \"many\"", "write a number"]);
    wrong_field("cpus: -1", 11, &["from 0"]);
    wrong_field("cpus: [1]", 11, &["single value, not a list"]);
    wrong_field("cpus:", 5, &["cpus has no value"]);
    wrong_field("gpus: 1.5", 11, &["whole number"]);
    wrong_field("memory: 4X", 13, &["512M or 4G"]);
    wrong_field("vram: -1G", 11, &["amount of memory"]);
    wrong_field("priority: 99999999999", 15, &["whole number from -2147483648"]);
    wrong_field("max_retries: 0", 18, &["from 1 to 1000"]);
    wrong_field("timeout: soon", 14, &["no duration", "30s, 5m"]);
    wrong_field("timeout: 0", 14, &["at once"]);
    wrong_field("not_before: tomorrow", 17, &["no time", "2026-"]);
    wrong_field("deadline: 2026-05-05", 15, &["no time"]);
    wrong_field("grace: -1s", 12, &["no duration"]);
    wrong_field("grace: 99999w", 12, &["longer than"]);
    wrong_field("signal: SIGNOTHING", 13, &["no signal", "SIGINT"]);
    wrong_field("hold: yes", 11, &["true or false"]);
    wrong_field("rule: all_succes", 11, &["did you mean all_success?"]);
    wrong_field("rule: some", 11, &["one of all_success, all_done"]);
    wrong_field("if_unmet: skip", 15, &["one of fail, cancel, run"]);
    wrong_field("tags: ssd", 11, &["a list such as"]);
    wrong_field("tags: [\"\"]", 12, &["empty"]);
    wrong_field("env: [A]", 10, &["a mapping such as"]);
    wrong_field("env: {A: }", 11, &["has no value", "\"\""]);
    wrong_field("env: {A=B: x}", 11, &["name of a variable"]);
    wrong_field("env: {A: [1]}", 14, &["the variable A", "single value"]);
    wrong_field("env: {A: \"x\\0y\"}", 14, &["NUL"]);
    wrong_field("counters: {a: x}", 19, &["counter a", "whole number"]);
    wrong_field("backoff: {factor: 2}", 14, &["initial delay"]);
    wrong_field("backoff: {initial: 1s, factor: 0.5}", 36, &["from 1"]);
    wrong_field("backoff: {initial: 1s, jitter: 2}", 36, &["from 0 to 1"]);
    wrong_field("retry_on: {signals: [SIGX]}", 26, &["no signal"]);
    for text in ["2", "x1", "x", "x2:x", "x1000"] {
        wrong_field(&format!("oom_memory: {text}"), 17, &["a factor such as x2"]);
    }
    wrong_field("retry_on: {exit_codes: [300]}", 29, &["from 1 to 255"]);
    wrong_field("requeue_exit_codes: 75", 25, &["a list such as"]);
    wrong_field("concurrency: {limit: 2}", 18, &["needs a key"]);
    wrong_field("concurrency: {key: a, limit: 0}", 34, &["from 1"]);
    wrong_field("unique: {key: a, on_conflict: drop}", 35, &["one of existing, replace"]);
    wrong_field("max_parallel: 0", 19, &["from 1"]);
    wrong_field("queue: \"\"", 12, &["empty"]);
    wrong("max_parallel: x\nsteps: [{name: a, run: x}]\n", (1, 15), &["whole number"]);
}

#[test]
fn when_to_start_is_said_once() {
    let text = "steps:\n  - name: a\n    run: x\n    delay: 5m\n    not_before: 2026-05-05T08:33:00Z\n";
    wrong(text, (5, 5), &["not_before and delay", "keep one"]);
}

#[test]
fn how_many_run_at_once_is_said_once() {
    let text = "steps:\n  - name: a\n    run: x\n    max_parallel: 2\n    concurrency: db\n";
    wrong(text, (5, 5), &["max_parallel and concurrency", "keep one"]);
    let step =
        read("defaults: {max_parallel: 3}\nsteps: [{name: a, run: x, concurrency: db}]").steps.remove(0);
    assert_eq!((step.max_parallel, step.job.concurrency.map(|it| it.limit)), (None, Some(1)));
}

#[test]
fn what_a_step_runs() {
    wrong("steps:\n  - name: a\n", (2, 11), &["runs nothing", "run:", "argv"]);
    wrong("steps:\n  - name: a\n    run: x\n    argv: [x]\n", (4, 5), &["run and argv"]);
    wrong("steps:\n  - name: a\n    run: \"  \"\n", (3, 10), &["run is empty"]);
    wrong("steps:\n  - name: a\n    run:\n", (3, 5), &["run has no value"]);
    wrong("steps:\n  - name: a\n    argv: []\n", (3, 11), &["begin with a program"]);
    wrong("steps:\n  - name: a\n    argv: ls -l\n", (3, 11), &["a list such as"]);
    wrong("steps:\n  - ./a.sh\n", (2, 5), &["a mapping such as {name: a, run: ./a.sh}"]);
}

#[test]
fn names_of_steps() {
    wrong("steps:\n  - run: x\n", (2, 5), &["no name"]);
    wrong("steps:\n  - {name: \"\", run: x}\n", (2, 12), &["empty"]);
    wrong("steps:\n  - {name: a b, run: x}\n", (2, 12), &["\"a b\" has ' ' in it"]);
    wrong("steps:\n  - {name: -a, run: x}\n", (2, 12), &["begin with a letter"]);
    wrong(&format!("steps:\n  - {{name: {}, run: x}}\n", "a".repeat(129)), (2, 12), &["longer than 128"]);
    wrong("steps:\n  - {name: a, run: x}\n  - {name: a, run: y}\n", (3, 12), &["two steps \"a\"", "line 2"]);
    wrong("steps:\n  a: {run: x}\n  a: {run: y}\n", (3, 3), &["\"a\" stands here twice, first in line 2"]);
    wrong("steps:\n  a: {run: x, name: b}\n", (2, 15), &["its name already"]);
}

#[test]
fn needs_that_cannot_be() {
    let text = "steps:\n  - {name: extract, run: x}\n  - {name: b, run: x, needs: [extrat]}\n";
    wrong(text, (3, 31), &["no step \"extrat\"", "did you mean extract?"]);
    wrong(
        "steps:\n  - {name: b, run: x, needs: zebra}\n",
        (2, 30),
        &["no step \"zebra\"", "the steps are b"],
    );
    wrong_field("needs: [{rule: all_done}]", 13, &["must name a step"]);
    let twice = "steps:\n  - {name: a, run: x}\n  - {name: b, run: x, needs: [a, a]}\n";
    wrong(twice, (3, 34), &["\"a\" is needed twice"]);
    let rule = "steps:\n  - {name: a, run: x}\n  - {name: b, run: x, needs: [{step: a, rule: any}]}\n";
    wrong(rule, (3, 47), &["rule is \"any\""]);
}

#[test]
fn cycles_are_spelled_out() {
    wrong("steps:\n  - {name: a, run: x, needs: a}\n", (2, 30), &["needs itself: a -> a"]);
    let two = "steps:\n  - {name: a, run: x, needs: [b]}\n  - {name: b, run: x, needs: [a]}\n";
    wrong(two, (3, 31), &["wait for each other: a -> b -> a"]);
    let tail = "steps:\n  z: {run: x, needs: c}\n  a: {run: x, needs: [c]}\n  b: {run: x, needs: [a]}\n  c: {run: x, needs: [b]}\n";
    wrong(tail, (3, 23), &["c -> b -> a -> c"]);
    let apart = mistakes("steps:\n  a: {run: x, needs: a}\n  b: {run: x, needs: b}\n");
    assert_eq!(apart.iter().map(|mistake| mistake.line).collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn a_long_chain_is_no_cycle_and_no_deep_recursion() {
    let chain = lines((1..9_999).rev(), |index| format!("  s{index}: {{run: x, needs: s{}}}", index - 1));
    let text = format!("steps:\n{chain}  s0: {{run: x}}\n");
    assert_eq!(read(&text).steps.len(), 9_999);
}

#[test]
fn parameters() {
    let text = "params:\n  REGION:\n  DATE: today\nsteps: [{name: a, run: x}]\n";
    wrong(text, (2, 3), &["REGION has no value", "--param REGION=VALUE"]);
    let unknown = parse(text, &given(&[("REGION", "eu"), ("DAET", "x")])).unwrap_err();
    assert_eq!((unknown[0].line, unknown[0].column), (1, 1));
    assert!(unknown[0].message.contains("did you mean DATE?"), "{unknown:?}");
    let none = parse("steps: [{name: a, run: x}]", &given(&[("A", "b")])).unwrap_err();
    assert!(none[0].message.contains("declare it under `params:`"), "{none:?}");
    wrong("params: {a-b: 1}\nsteps: [{name: a, run: x}]\n", (1, 10), &["cannot be a parameter"]);
    wrong("params: {MUSTER_X: 1}\nsteps: [{name: a, run: x}]\n", (1, 10), &["cannot be a parameter"]);
    wrong("params: [A]\nsteps: [{name: a, run: x}]\n", (1, 9), &["params must be a mapping"]);
    let document = parse(text, &given(&[("REGION", ""), ("DATE", "2026-01-01")])).unwrap();
    assert_eq!(document.steps[0].job.env, given(&[("REGION", ""), ("DATE", "2026-01-01")]));
}

#[test]
fn what_multiplies_a_step() {
    wrong_field("matrix: {}", 13, &["no axes"]);
    wrong_field("matrix: {A: []}", 14, &["the axis A is empty"]);
    wrong_field("matrix: {A: 1}", 17, &["the axis A must be a list"]);
    wrong_field("matrix: {A: [[1]]}", 18, &["a value of A must be a single value"]);
    wrong_field("matrix: {A-B: [1]}", 14, &["cannot be an axis"]);
    wrong_field("each: []", 11, &["each has no items"]);
    wrong_field("each: [{a b: 1}]", 13, &["cannot be a variable"]);
    wrong_field("array: 9-0", 12, &["backwards"]);
    wrong_field("array: 0-9%5", 12, &["max_parallel"]);
    wrong_field("array: 0-999999", 12, &["1000000 elements", "100000 jobs"]);
    let thousand: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    let axis = thousand.join(",");
    wrong_field(&format!("matrix: {{A: [{axis}], B: [{axis}]}}"), 13, &["more than 100000 combinations"]);
    let both = "steps:\n  - name: a\n    run: x\n    each: [1]\n    array: 0-9\n";
    wrong(both, (5, 5), &["each and array both multiply"]);
    let many = "steps:\n  a: {run: x, array: 0-99999}\n  b: {run: x}\n";
    wrong(many, (1, 1), &["100001 jobs"]);
}

#[test]
fn all_mistakes_come_at_once_and_in_order() {
    let text = "nmae: x\nsteps:\n  - {name: a, run: x, cpus: y, needs: [q]}\n  - {name: a, timout: 1}\n";
    let places: Vec<_> = mistakes(text).iter().map(|mistake| (mistake.line, mistake.column)).collect();
    assert_eq!(places, [(1, 1), (3, 29), (3, 40), (4, 12), (4, 12), (4, 15)]);
}

#[test]
fn steps_for_a_pipeline_that_is_there() {
    let existing: BTreeSet<String> = ["a".to_owned(), "extract".to_owned()].into();
    let none = BTreeMap::new();
    let added = parse_addition("steps: [{name: b, run: x, needs: [a]}]", &none, &existing).unwrap();
    assert_eq!(added.steps[0].needs[0].step, "a");
    let again = parse_addition("steps: [{name: a, run: x}]", &none, &existing).unwrap_err();
    assert!(again[0].message.contains("has a step a already"), "{again:?}");
    let unknown =
        parse_addition("steps: [{name: c, run: x, needs: [extrakt]}]", &none, &existing).unwrap_err();
    assert!(unknown[0].message.contains("did you mean extract?"), "{unknown:?}");
    let named = parse_addition("name: x\nsteps: [{name: c, run: x}]", &none, &existing).unwrap_err();
    assert!(named[0].message.contains("whole pipeline"), "{named:?}");
}

#[test]
fn hostile_texts_are_refused_within_bounds() {
    let deep = [
        format!("steps: {}", "[".repeat(100_000)),
        format!("steps:\n{}", "- ".repeat(100_000)),
        format!("steps: {}", "{a: ".repeat(100_000)),
        lines(0..20_000, |depth| format!("{}a:", " ".repeat(depth % 3_000))),
    ];
    for text in &deep {
        assert!(parse(text, &BTreeMap::new()).is_err());
    }
    let nested = lines(1..30, |level| {
        let aliases = vec![format!("*a{}", level - 1); 9].join(",");
        format!("a{level}: &a{level} [{aliases}]")
    });
    let laughs = format!("a0: &a0 [x,x,x,x,x,x,x,x,x]\n{nested}");
    let found = mistakes(&laughs);
    assert!(found.iter().any(|mistake| mistake.message.contains("aliases")), "{found:?}");
    let long = format!(
        "params: {{A: {}}}\nsteps:\n{}",
        "x".repeat(500_000),
        lines(0..9_000, |step| format!("  s{step}: {{run: x}}"))
    );
    assert!(mistakes(&long)[0].message.contains("too much"));
    let keys = lines(0..100_000, |key| format!("k{key}: 1"));
    assert_eq!(mistakes(&keys).len(), 100);
}

#[test]
fn secrets_are_names_or_mappings_and_a_step_replaces_the_defaults() {
    use muster_protocol::{SecretUse, SecretWish};
    let text = "defaults: {secrets: [HF_TOKEN]}\nsteps:\n  - {name: a, run: x}\n  - {name: b, run: x, secrets: [{name: db, file: true, as: DB}]}";
    let document = parse(text, &BTreeMap::new()).unwrap();
    assert_eq!(document.steps[0].job.secrets, [SecretWish::Name("HF_TOKEN".into())]);
    let wanted = SecretUse { name: "db".into(), file: true, variable: Some("DB".into()) };
    assert_eq!(document.steps[1].job.secrets, [SecretWish::Use(wanted)]);
    wrong_field("secrets: x", 14, &["a list such as"]);
    wrong_field("secrets: [{name: x, fil: true}]", 25, &["did you mean file?"]);
    wrong_field("secrets: [{file: true}]", 15, &["must have a name"]);
}
