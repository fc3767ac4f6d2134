//! The contract of stores holds over a network that works, and over one that does not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use drystone_s3_rig::{Action, Config, Rig, Rule, Script};
use drystone_store::{Store, conformance};
use drystone_store_object::{FarStore, Options};

/// A store in a folder of its own in the rig's bucket.
fn fresh(rig: &Rig, timeout: &str) -> Box<dyn Store> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let url = format!("s3://bucket/deep/er/{}.dry", COUNT.fetch_add(1, Ordering::Relaxed));
    let options = Options::new([
        ("aws_endpoint", rig.endpoint()),
        ("aws_access_key_id", "key".into()),
        ("aws_secret_access_key", "secret".into()),
        ("timeout", timeout.into()),
    ]);
    Box::new(FarStore::open(&url, &options).expect("the address is valid"))
}

#[test]
fn a_bucket_keeps_the_contract() {
    let rig = Rig::start(Config::default()).unwrap();
    conformance::check(|| fresh(&rig, "30s"));
    assert_eq!(rig.with_objects(|objects| objects.open_uploads()), 0, "no upload is left open");
}

/// Three requests in ten fail: replies are lost, cut in the middle, or errors although the write was done; or the
/// server is busy.
#[test]
fn a_bucket_keeps_the_contract_where_replies_are_lost_and_writes_are_refused() {
    let rig = Rig::start(Config::default()).unwrap();
    let faults = [
        Action::Cut(None),
        Action::Cut(Some(5)),
        Action::StatusAfterLanding(500),
        Action::StatusAfterLanding(503),
        Action::Status(500),
        Action::Status(503),
    ];
    let script =
        faults.into_iter().fold(Script::new(11), |script, action| script.rule(Rule::new(action).share(0.05)));
    rig.set_script(script.rule(Rule::new(Action::Status(409)).of_kind("PUT").share(0.05)));
    conformance::check(|| fresh(&rig, "30s"));
}

#[test]
fn a_bucket_keeps_the_contract_where_replies_are_late() {
    let rig = Rig::start(Config::default()).unwrap();
    let late = Action::DelayAfter(Duration::from_millis(150));
    let very_late = Action::DelayBefore(Duration::from_millis(400));
    rig.set_script(Script::new(3).rule(Rule::new(late).share(0.03)).rule(Rule::new(very_late).share(0.01)));
    conformance::check(|| fresh(&rig, "30s"));
}

/// A real server, if there is one: `DRYSTONE_CONFORMANCE_URL` names a bucket and a folder in it (`s3://bucket/folder`),
/// to which the test writes. All other settings come from the usual environment variables.
#[test]
fn the_server_that_the_environment_names_keeps_the_contract() {
    let Ok(root) = std::env::var("DRYSTONE_CONFORMANCE_URL") else { return };
    let run = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    let count = AtomicU64::new(0);
    conformance::check(|| {
        let url = format!("{root}/{run}-{}", count.fetch_add(1, Ordering::Relaxed));
        Box::new(FarStore::open(&url, &Options::default()).expect("the address is valid"))
    });
}
