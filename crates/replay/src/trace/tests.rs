//! Traces of others are read as they are, and what is wrong is said with its line.

use muster_domain::Span;
use proptest::prelude::*;

use super::*;
use crate::generate::Generator;

const PHILLY: &str =
    "submit_s,duration_s,tasks,gpus_per_task,vc\n0,2240194,1,8,7f04ca\n235696,3256045,2,8,6214e9\n";
const KTH: &str = "submit_s,duration_s,req_time_s,tasks,user,queue,status\n0,97225,210000,56,1,-1,1\n327952,9382,14400,80,2,-1,1\n";

#[test]
fn tables_of_gpus() {
    let trace = read(PHILLY, 0).unwrap();
    let jobs = &trace.workload.jobs;
    assert_eq!((jobs.len(), jobs[1].tasks, jobs[1].need.gpus, jobs[1].need.cpu_millis), (2, 2, 8, 0));
    assert_eq!(trace.workload.queues, ["7f04ca", "6214e9"]);
    assert_eq!((jobs[1].run, jobs[1].limit), (Span::from_secs(3_256_045), None));
    assert_eq!(jobs[1].submit.as_micros(), 235_696_000_000);
    assert!(trace.names.is_empty() && trace.cluster.is_none());
}

#[test]
fn tables_of_processors() {
    let trace = read(KTH, 0).unwrap();
    let job = &trace.workload.jobs[0];
    assert_eq!((job.tasks, job.need.cpu_millis, job.need.gpus), (56, 1000, 0));
    assert_eq!(job.limit, Some(Span::from_secs(210_000)));
    assert_eq!(
        (trace.workload.users.as_slice(), trace.workload.queues.as_slice()),
        (&["1".to_owned(), "2".into()][..], &["-".to_owned()][..])
    );
}

#[test]
fn optional_columns_in_any_order_and_with_quotation_marks() {
    let text = "# made by hand\nname,Tasks,memory_mb,cpus,submit_s,duration_s,priority,preemptible,color\n\
                \"train, \"\"big\"\"\",2,512,0.5,10,1.5,7,no,red\n\neval,1,0,1,3,60,-2,true,blue\n";
    let trace = read(text, 0).unwrap();
    // By submission.
    assert_eq!(trace.names, ["eval", "train, \"big\""]);
    let job = &trace.workload.jobs[1];
    assert_eq!(
        (job.priority, job.need.cpu_millis, job.need.memory_mb, job.preemptible),
        (7, 500, 512, false)
    );
    assert_eq!(job.run.as_micros(), 1_500_000);
}

#[test]
fn mistakes_in_tables_are_named_with_their_line() {
    let head = "submit_s,duration_s,tasks\n";
    for (text, message) in [
        (String::new(), "nothing in it"),
        ("submit_s,tasks\n".to_owned(), "line 1: the column duration_s is missing"),
        ("submit_s,submit,duration_s,tasks\n".to_owned(), "there twice"),
        (format!("{head}1,2\n"), "line 2 has 2 fields and not 3"),
        (format!("{head}\n# x\n1,2,3\n1,x,1\n"), "line 5: duration_s is \"x\""),
        (format!("{head}-1,2,3\n"), "line 2: submit_s is \"-1\""),
        (format!("{head}1,2,0\n"), "line 2: tasks is \"0\""),
        (format!("{head}1,NaN,1\n"), "NaN"),
        (format!("{head}1,inf,1\n"), "inf"),
        (format!("{head}1,\"2,1\n"), "line 2: a quotation mark is not closed"),
    ] {
        let error = csv::read(&text).unwrap_err().to_string();
        assert!(error.contains(message), "{text:?}: {error}");
    }
}

#[test]
fn the_standard_workload_format() {
    let text = "; Version: 2\n; MaxProcs: 128\n\
                1 0 5 100 4 -1 -1 6 200 -1 1 3 1 -1 2 -1 -1 -1\n\
                2 10 5 -1 4 -1 -1 4 200 -1 0 3 1 -1 2 -1 -1 -1\n\
                3 5 5 60 -1 -1 -1 8 -1 -1 1 4 1 -1 -1 -1 -1 -1\n";
    assert_eq!(recognise(text), Format::Swf);
    let trace = read(text, 0).unwrap();
    let jobs = &trace.workload.jobs;
    assert_eq!((jobs.len(), trace.skipped), (2, 1));
    assert_eq!((jobs[0].tasks, jobs[0].limit), (4, Some(Span::from_secs(200))));
    assert_eq!((jobs[1].tasks, jobs[1].limit), (8, None));
    assert_eq!(trace.cluster.unwrap().nodes[0].each.cpu_millis, 128_000);
    assert_eq!(
        (trace.workload.users, trace.workload.queues),
        (vec!["3".to_owned(), "4".into()], vec!["2".to_owned(), "-".into()])
    );
    let wrong = swf::read("1 0 5 x 4 -1\n").unwrap_err().to_string();
    assert!(wrong.contains("line 1: field 4 (run time) is \"x\""), "{wrong}");
    let short = swf::read("; a\n1 0 5\n").unwrap_err().to_string();
    assert!(short.contains("line 2 has 3 fields"), "{short}");
}

const PLAN: &str = r#"
[[queues]]
name = "team"
count = 2

[[queues.jobs]]
class = "small"
count = 3
every = "100ms"
run = "200ms"
priority = 50

[[queues.jobs]]
class = "large"
count = 2
every = "1s"
start = "50ms"
arrivals = "poisson"
run = { from = "1s", to = "2s" }
tasks = 4
gpus = 8
priority = 200
preemptible = false
"#;

#[test]
fn plans_are_carried_out() {
    let trace = read(PLAN, 3).unwrap();
    assert_eq!(trace, read(PLAN, 3).unwrap());
    assert_ne!(trace, read(PLAN, 4).unwrap());
    assert_eq!(trace.workload.queues, ["team-1", "team-2"]);
    let of = |class: &str| {
        let jobs = trace.workload.jobs.iter().zip(&trace.names);
        jobs.filter(|(_, name)| *name == class).map(|(job, _)| job.clone()).collect::<Vec<_>>()
    };
    let (small, large) = (of("small"), of("large"));
    assert_eq!((small.len(), large.len()), (6, 4));
    let times: Vec<i64> = small.iter().map(|job| job.submit.as_micros()).collect();
    assert_eq!(times, [0, 0, 100_000, 100_000, 200_000, 200_000]);
    assert!(large.iter().all(|job| (1_000_000..2_000_000).contains(&job.run.as_micros())));
    assert!(large.iter().all(|job| (job.tasks, job.need.gpus, job.preemptible) == (4, 8, false)));
    assert!(trace.workload.jobs.is_sorted_by_key(|job| job.submit));
}

#[test]
fn mistakes_in_plans_are_said() {
    for (text, part) in [
        ("[[queues]]\nname = 1", "expected a string"),
        ("[[queues]]\nname = \"a\"\njobs = [{ run = \"soon\" }]", "run is \"soon\""),
        ("[[queues]]\nname = \"a\"\njobs = [{ run = 1, tasks = 0 }]", "tasks is 0"),
        ("[[queues]]\nname = \"a\"\njobs = [{ run = 1, wheels = 4 }]", "wheels"),
        (
            "[[queues]]\nname = \"a\"\ncount = 4000000000\njobs = [{ run = 1, count = 4000000000 }]",
            "more than",
        ),
        ("[[queues]]\nname = \"a\"\ncount = 4000000000\njobs = []", "more than"),
        ("[[queues]]\nname = \"a\"\ncount = 4000000000\njobs = [{ run = 1, count = 0 }]", "more than"),
    ] {
        let error = read(text, 0).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn what_is_written_is_read_again() {
    let mut trace = "ml:jobs=200,seed=2".parse::<Generator>().unwrap().trace();
    trace.names = (0..200).map(|number| format!("job \"{number}\", again")).collect();
    let again = read(&write_csv(&trace), 0).unwrap();
    let (one, other) = (&trace.workload, &again.workload);
    assert_eq!(trace.names, again.names);
    for (before, after) in one.jobs.iter().zip(&other.jobs) {
        let owner = |workload: &Workload, job: &crate::workload::TraceJob| {
            (workload.queues[job.queue as usize].clone(), workload.users[job.user as usize].clone())
        };
        assert_eq!(owner(one, before), owner(other, after));
        let neutral =
            |job: &crate::workload::TraceJob| crate::workload::TraceJob { queue: 0, user: 0, ..job.clone() };
        assert_eq!(neutral(before), neutral(after));
    }
}

proptest! {
    #[test]
    fn no_text_makes_a_reader_panic(text in "\\PC{0,200}", lines in prop::collection::vec("[-0-9a-z.,;\" ]{0,30}", 0..12)) {
        let _ = read(&text, 1);
        let body = lines.join("\n");
        for start in ["submit_s,duration_s,tasks\n", "submit_s,duration_s,tasks,gpus,name\n", "; x\n", "[[queues]]\n", ""] {
            let whole = format!("{start}{body}");
            let _ = (csv::read(&whole), swf::read(&whole), Plan::parse(&whole), read(&whole, 1));
        }
    }

    #[test]
    fn errors_name_lines_that_exist(rows in prop::collection::vec("[0-9x]{1,3},[0-9-]{1,3},[0-9]{1,2}", 1..20)) {
        let text = format!("submit_s,duration_s,tasks\n{}", rows.join("\n"));
        match csv::read(&text) {
            Ok(trace) => prop_assert_eq!(trace.workload.jobs.len(), rows.len()),
            Err(TraceError::Value { line, value, .. }) => {
                prop_assert!(text.lines().nth(line - 1).unwrap().contains(&value));
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}
