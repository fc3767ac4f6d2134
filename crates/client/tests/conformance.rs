//! The contract of every store, through a real server: over a Unix socket, over TCP, over TLS.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic like tests")]

mod rig;

use drystone_store::conformance;
use rig::Rig;

#[test]
fn a_server_keeps_the_contract_over_a_unix_socket() {
    let rig = Rig::start("");
    conformance::check(|| Box::new(rig.fresh(&rig.unix(), &[])));
}

#[test]
fn a_server_keeps_the_contract_over_tcp() {
    let rig = Rig::start("");
    let token = rig.token(&["storage.read:/", "storage.create:/", "storage.modify:/"]);
    conformance::check(|| Box::new(rig.fresh(&rig.tcp(), &[("token", &token)])));
}

#[test]
fn a_server_keeps_the_contract_over_tls() {
    let rig = Rig::start_encrypted();
    let token = rig.token(&["storage.read:/", "storage.create:/", "storage.modify:/"]);
    let authority = rig.certificate();
    conformance::check(|| {
        Box::new(rig.fresh(&rig.tls(), &[("token", &token), ("ca_certificate", &authority)]))
    });
}
