use super::*;

#[test]
fn an_open_epoch_lets_its_client_be_silent() {
    use std::cell::Cell;
    let (mut client, server) = UnixStream::pair().expect("two ends");
    server.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
    let mut reader = BufReader::new(&server);
    client.write_all(b"{\"do\":").expect("it takes it");
    let patience_ended = Cell::new(0);
    let waits = || {
        patience_ended.set(patience_ended.get() + 1);
        if patience_ended.get() == 3 {
            (&client).write_all(b"\"status\"}\nrest").expect("it takes it");
        }
        true
    };
    assert_eq!(next_line(&mut reader, waits).expect("a line"), b"{\"do\":\"status\"}\n");
    assert_eq!(patience_ended.get(), 3);
    let closed = next_line(&mut reader, || false).expect_err("it is not waited for");
    assert!(matches!(closed.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{closed}");
    drop(client);
    assert_eq!(next_line(&mut reader, || true).expect("an end"), b"");
}

/// Otherwise the user who makes the link would choose the volume that gets the order.
#[test]
fn no_order_goes_through_a_link_in_the_place_of_the_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let other = std::os::unix::net::UnixListener::bind(folder.path().join("other")).expect("it listens");
    other.set_nonblocking(true).expect("it does not wait");
    std::os::unix::fs::symlink("other", folder.path().join(CONTROL_SOCKET)).expect("a link");
    for what in [Order::Status, Order::Stop, Order::Fail { device: 0, lose_data: true }] {
        let refused = order_within(folder.path(), &what, Duration::from_millis(50));
        assert!(matches!(refused, Err(FolderError::File { .. })), "{refused:?}");
    }
    assert_eq!(other.accept().map(drop).map_err(|error| error.kind()), Err(ErrorKind::WouldBlock));
}

/// The server sends single bytes, each soon enough, but never a whole line.
#[test]
fn an_answer_that_drips_is_waited_for_no_longer_than_any() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = std::os::unix::net::UnixListener::bind(folder.path().join(CONTROL_SOCKET));
    let server = server.expect("it listens");
    let drip = move || {
        for stream in server.incoming().take(2) {
            let mut stream = stream.expect("a client");
            while stream.write_all(b" ").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    };
    let server = std::thread::spawn(drip);
    let asked = |patience, is_ended: &dyn Fn() -> bool| {
        order_until(folder.path(), &Order::Status, Duration::from_millis(patience), is_ended)
    };
    let refused = asked(50, &|| false);
    assert!(matches!(refused, Err(FolderError::NoAnswer { .. })), "{refused:?}");
    let refused = asked(60_000, &|| true);
    assert!(
        matches!(refused, Err(FolderError::NoAnswer { after, .. }) if after < Duration::from_secs(30)),
        "{refused:?}"
    );
    server.join().expect("no panic");
}

#[test]
fn an_answer_ends_where_the_server_closes() {
    let (mut client, mut server) = UnixStream::pair().expect("two ends");
    server.write_all(b"half").expect("it takes it");
    drop(server);
    let until = Instant::now() + Duration::from_secs(10);
    assert_eq!(answer_line(&mut client, until, &|| false).expect("an end"), b"half");
}

#[test]
fn orders_have_their_documented_form() {
    let page = include_str!("../../../../docs/control-socket.md");
    for (order, text) in [
        (Order::Status, r#"{"do":"status"}"#),
        (Order::Stop, r#"{"do":"stop"}"#),
        (Order::Fail { device: 3, lose_data: false }, r#"{"do":"fail","device":3,"lose-data":false}"#),
        (
            Order::Replace { device: 3, path: "/dev/sdx".into(), overwrite: false },
            r#"{"do":"replace","device":3,"path":"/dev/sdx","overwrite":false}"#,
        ),
        (Order::CancelReplace { device: 3 }, r#"{"do":"cancel-replace","device":3}"#),
        (
            Order::AddSpare { path: "/dev/sdx".into(), overwrite: true },
            r#"{"do":"add-spare","path":"/dev/sdx","overwrite":true}"#,
        ),
        (Order::RemoveSpare { path: "/dev/sdx".into() }, r#"{"do":"remove-spare","path":"/dev/sdx"}"#),
        (
            Order::Rebuild { throttle_bytes_per_s: Some(1000000) },
            r#"{"do":"rebuild","throttle-bytes-per-s":1000000}"#,
        ),
        (Order::ScrubStart { repair: true }, r#"{"do":"scrub-start","repair":true}"#),
        (Order::ScrubPause, r#"{"do":"scrub-pause"}"#),
        (Order::ScrubResume, r#"{"do":"scrub-resume"}"#),
        (Order::ScrubStop, r#"{"do":"scrub-stop"}"#),
        (Order::ClearErrors { device: 3 }, r#"{"do":"clear-errors","device":3}"#),
        (
            Order::DelayedStart {
                offset: Some(0),
                len_bytes: Some(1073741824),
                owed_bytes_max: Some(268435456),
                age_max_s: Some(30),
                idle_max_s: Some(300),
                on_timeout: Some(OnTimeout::Abort),
                detached: false,
            },
            r#"{"do":"delayed-start","offset":0,"len-bytes":1073741824,"owed-bytes-max":268435456,"age-max-s":30,"idle-max-s":300,"on-timeout":"abort","detached":false}"#,
        ),
        (Order::DelayedEnd { epoch: 2000001 }, r#"{"do":"delayed-end","epoch":2000001}"#),
        (Order::DelayedAbort { epoch: 2000001 }, r#"{"do":"delayed-abort","epoch":2000001}"#),
    ] {
        assert_eq!(serde_json::to_string(&order).expect("JSON"), text);
        assert_eq!(serde_json::from_str::<Order>(text).expect("JSON"), order);
        assert!(page.contains(text), "docs/control-socket.md does not show {text}");
    }
}
