//! `annals purge`: a secret that a real OpenCode has stored in every kind of place is found in no file afterwards, and everything else is as it was.

use std::path::{Path, PathBuf};

use annals_testkit::files_below;
use annals_testkit::model::{ModelServer, Playbook, Turn};
use annals_testkit::opencode::{Lab, OpenCode};
use base64::Engine;
use serde_json::{Value, json};

use super::kit::{AnnalsCommand, User, plain, text, write};

/// annals in the surroundings of an OpenCode.
fn annals(lab: &Lab, arguments: &[&str]) -> AnnalsCommand {
    let command = plain(lab.root(), arguments);
    lab.env().into_iter().fold(command, |command, (name, value)| command.env(&name, value))
}

fn base64(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// A secret that no other run has.
fn secret() -> String {
    format!("sk{}", annals::ids::new_session().as_str().trim_start_matches("ses_"))
}

/// An OpenCode that has worked with a secret in one session, and without it in others.
struct Scene {
    lab: Lab,
    model: ModelServer,
    project: PathBuf,
    secret: String,
    session: String,
    others: Vec<String>,
}

impl Scene {
    fn new(version: &str) -> Scene {
        let secret = secret();
        let playbook = Playbook::builtin()
            .scenario(
                "leak",
                [
                    Turn::call("bash", json!({"command": format!("echo {secret}"), "description": "Says it"}))
                        .and_call("write", json!({"filePath": "key.txt", "content": format!("key={secret}\n")})),
                    Turn::call(
                        "todowrite",
                        json!({"todos": [{"content": format!("Revoke {secret}"), "status": "pending", "priority": "high", "id": "1"}]}),
                    ),
                    Turn::call("bash", json!({"command": format!("for n in $(seq 3000); do echo line $n {secret}; done"), "description": "Long"})),
                    Turn::text(format!("The key {secret} is in key.txt.")),
                ],
            )
            .scenario("plain", [
                Turn::call("write", json!({"filePath": "plain.txt", "content": "nothing of interest\n"})),
                Turn::text("Nothing of interest."),
            ])
            .prompt("Use the key", "leak")
            .prompt("Something else", "plain");
        let model = ModelServer::start(playbook).unwrap();
        let lab = Lab::new(&OpenCode::version(version));
        lab.configure(&model);
        let project = lab.repo("shop", &[("README.md", "# shop\n")]);
        let ask = |prompt: &str| lab.run(&project, &["--model", "lab/lab-large", prompt]);
        let first = ask("Something else, please.");
        let session = ask(&format!("Use the key {secret}, please."));
        // Snapshots of later sessions would have the file too.
        std::fs::remove_file(project.join("key.txt")).unwrap();
        let second = ask("Something else again, please.");
        let server = lab.serve(&project);
        let at = format!("/session/{session}");
        server.patch(&at, &json!({"title": format!("About {secret}")}));
        let attached = base64(&format!("file with {secret}"));
        server.post(
            &format!("{at}/message"),
            &json!({"noReply": true, "model": {"providerID": "lab", "modelID": "lab-large"}, "parts": [
                {"type": "text", "text": format!("Attached: {secret}")},
                {"type": "file", "mime": "text/plain", "filename": format!("{secret}.txt"), "url": format!("data:text/plain;base64,{attached}")},
            ]}),
        );
        server.stop();
        let scene = Scene { lab, model, project, secret, session, others: vec![first, second] };
        // What OpenCode's log and the history of prompts hold depends on the version and on the screen that was used.
        let line = format!("INFO 2026-01-01T00:00:00 service=session text={} id=1\n", scene.secret);
        write(&scene.lab.data(), "log/opencode.log", format!("first line\n{line}last line\n"));
        let prompt = json!({"input": format!("Use the key {}, please.", scene.secret), "parts": []});
        let other = json!({"input": "Something else, please.", "parts": []});
        write(&scene.state(), "prompt-history.jsonl", format!("{prompt}\n{other}\n"));
        scene
    }

    fn state(&self) -> PathBuf {
        self.lab.root().join("state/opencode")
    }

    fn export(&self, session: &str) -> Value {
        serde_json::from_slice(&self.lab.export(&self.project, session)).unwrap()
    }

    /// Files of OpenCode's and of annals' in which the secret is found, plain or as base64.
    fn mentioning(&self) -> Vec<PathBuf> {
        let needles = [self.secret.clone(), base64(&format!("file with {}", self.secret))];
        let mut found = Vec::new();
        for place in [self.lab.data().parent().unwrap().to_owned(), self.state(), self.lab.root().join("tmp")]
        {
            found.extend(files_below(&place).into_iter().filter(|file| {
                let bytes = std::fs::read(file).unwrap();
                let is_in = |needle: &String| memchr::memmem::find(&bytes, needle.as_bytes()).is_some();
                needles.iter().any(is_in) || file.to_string_lossy().contains(&self.secret)
            }));
        }
        found
    }
}

/// Objects of git below a directory in which a text is found: they are compressed.
fn git_objects_mentioning(data: &Path, needle: &str) -> usize {
    let repositories = files_below(&data.join("snapshot")).into_iter().filter(|file| file.ends_with("HEAD"));
    repositories
        .map(|head| {
            let git = |arguments: &[&str]| {
                let git_dir = head.parent().unwrap();
                std::process::Command::new("git")
                    .arg("--git-dir")
                    .arg(git_dir)
                    .args(arguments)
                    .output()
                    .unwrap()
                    .stdout
            };
            let all = git(&["cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)"]);
            let all = String::from_utf8(all).unwrap();
            let blobs = all.lines().filter_map(|line| line.strip_suffix(" blob"));
            blobs
                .filter(|blob| {
                    memchr::memmem::find(&git(&["cat-file", "blob", blob]), needle.as_bytes()).is_some()
                })
                .count()
        })
        .sum()
}

fn purge_leaves_nothing(version: &str) {
    let scene = Scene::new(version);
    let (lab, session) = (&scene.lab, &scene.session[..]);
    // The store, its history, its index and a backup get to know it.
    let _ = annals(lab, &["search", &scene.secret]).run().ok();
    let _ = annals(lab, &["rename", session, &format!("Now about {}", scene.secret)]).run().ok();
    let _ = annals(
        lab,
        &[
            "todo",
            session,
            "--set",
            &format!("[{{\"content\":\"{}\",\"status\":\"pending\"}}]", scene.secret),
        ],
    )
    .run();
    let backup = lab.root().join("backup.db");
    let _ = annals(lab, &["backup", backup.to_str().unwrap()]).run().ok();
    let before: Vec<Value> = scene.others.iter().map(|other| scene.export(other)).collect();
    assert!(scene.mentioning().len() >= 4, "{version}: {:?}", scene.mentioning());
    assert!(git_objects_mentioning(&lab.data(), &scene.secret) > 0, "{version}");

    let dry = annals(lab, &["purge", "--dry-run", session]).run().ok();
    assert!(dry.stderr.contains("nothing was erased"), "{dry}");
    assert!(!scene.mentioning().is_empty());
    // Where nobody can be asked, nothing is erased without `--yes`.
    assert_eq!(annals(lab, &["purge", session]).run().code, 2);
    let purged = annals(
        lab,
        &["purge", "--yes", "--json", "--verbose", session, "--backup", backup.to_str().unwrap()],
    )
    .run()
    .ok()
    .json();
    assert_eq!(purged["complete"], true, "{version}: {purged:#}");
    assert_eq!(purged["sessions"], json!([session]));
    assert_eq!(purged["backups"].as_array().unwrap().len(), 1, "{purged:#}");
    assert!(purged["lines"].as_array().unwrap().len() >= 2, "{purged:#}");

    assert_eq!(scene.mentioning(), Vec::<PathBuf>::new(), "{version}");
    assert_eq!(git_objects_mentioning(&lab.data(), &scene.secret), 0, "{version}");
    let rest = std::fs::read_to_string(lab.data().join("log/opencode.log")).unwrap();
    assert!(rest.starts_with("first line\n") && rest.ends_with("last line\n"), "{rest}");
    let history = std::fs::read_to_string(scene.state().join("prompt-history.jsonl")).unwrap();
    assert_eq!(history.lines().count(), 1, "{history}");
    assert!(memchr::memmem::find(&std::fs::read(&backup).unwrap(), scene.secret.as_bytes()).is_none());

    // Nothing else has changed, for annals and for OpenCode.
    let listed = annals(lab, &["list", "--json"]).run().ok().json();
    let mut ids: Vec<&str> = listed.as_array().unwrap().iter().map(|row| text(row, "id")).collect();
    let mut others: Vec<&str> = scene.others.iter().map(String::as_str).collect();
    ids.sort_unstable();
    others.sort_unstable();
    assert_eq!(ids, others);
    let after: Vec<Value> = scene.others.iter().map(|other| scene.export(other)).collect();
    assert_eq!(before, after, "{version}");
    assert!(!lab.cli(&scene.project, &["export", session], b"").status.success());
    let again = lab.run(&scene.project, &["--session", &scene.others[0], "Something else, once more."]);
    assert_eq!(again, scene.others[0]);
    let found = annals(lab, &["search", &scene.secret, "--json"]).run().ok().json();
    assert_eq!(found, json!([]));
    let undo = annals(lab, &["undo", "--json"]).run();
    assert_ne!(undo.code, 0, "{undo}");
    // A sync does not bring it back, and a second purge finds nothing to do.
    let _ = annals(lab, &["sync", "--full"]).run().ok();
    let again = annals(lab, &["purge", "--yes", "--json", session]).run().ok().json();
    assert_eq!(again["complete"], true, "{again:#}");
    assert_eq!(scene.mentioning(), Vec::<PathBuf>::new(), "{version}");
    drop(scene.model);
}

#[test]
fn a_secret_is_in_no_file_of_1_1() {
    purge_leaves_nothing("1.1.65");
}

#[test]
fn a_secret_is_in_no_file_of_1_2() {
    purge_leaves_nothing("1.2.27");
}

#[test]
fn a_secret_is_in_no_file_of_1_18() {
    purge_leaves_nothing("1.18.33");
}

/// Beside a server that has the database open, what cannot be removed safely stays and is reported; when the server has ended, it goes.
#[test]
fn beside_a_running_server_the_rest_waits() {
    let scene = Scene::new("1.18.33");
    let lab = &scene.lab;
    let server = lab.serve(&scene.project);
    assert_eq!(server.get(&format!("/session/{}", scene.others[0]))["id"], scene.others[0]);
    let ran = annals(lab, &["purge", "--yes", &scene.session]).run();
    assert_eq!(ran.code, 3, "{ran}");
    assert!(ran.stderr.contains(&format!("process {} has", server.process_id())), "{ran}");
    assert_eq!(server.request("GET", &format!("/session/{}", scene.session), None).status / 100, 4);
    let created = server.post("/session", &json!({"title": "After"}));
    server.stop();
    let _ = annals(lab, &["purge", "--yes", &scene.session]).run().ok();
    assert_eq!(scene.mentioning(), Vec::<PathBuf>::new());
    assert_eq!(scene.export(text(&created, "id"))["info"]["title"], "After");
}

#[test]
fn a_family_is_purged_together_and_a_deleted_session_by_its_title() {
    let user = User::new();
    user.write_session("36aaaaffe1", "Parent", "Look at xylophones", "Done with xylophones");
    user.write_session("36aaaaffe2", "Other", "Look", "Done");
    let child = r#"{"id":"ses_36aaaaffe3","projectID":"global","parentID":"ses_36aaaaffe1","directory":"/home/dev","title":"Child","version":"1.1.65","time":{"created":1771950000000,"updated":1771950000000}}"#;
    write(&user.opencode(), "storage/session/global/ses_36aaaaffe3.json", child);
    let _ = user.annals(&["rm", "--yes", "Parent"]).run().ok();
    let mentioning = || {
        files_below(user.root())
            .into_iter()
            .filter(|file| memchr::memmem::find(&std::fs::read(file).unwrap(), b"xylophone").is_some())
            .count()
    };
    assert!(mentioning() > 0);
    let purged = user.annals(&["purge", "--yes", "--json", "Parent"]).run().ok().json();
    assert_eq!(purged["complete"], true, "{purged:#}");
    assert_eq!(mentioning(), 0);
    let titles: Vec<Value> = user
        .annals(&["list", "--json"])
        .run()
        .ok()
        .json()
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["title"].clone())
        .collect();
    assert_eq!(titles, ["Other"]);
    let unknown = user.annals(&["purge", "--yes", "nothing like it"]).run();
    assert_eq!(unknown.code, 1, "{unknown}");
}
