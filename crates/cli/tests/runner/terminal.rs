//! annals on a real terminal: tmux draws the screen, types the keys and changes the size.

use std::process::Command;
use std::time::{Duration, Instant};

use super::kit::User;

/// Longest time to wait for something to appear. It is long, because many tests share the machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A terminal in which a shell runs, with the surroundings of a user.
struct Terminal<'u> {
    user: &'u User,
    socket: String,
}

impl<'u> Terminal<'u> {
    fn new(user: &'u User, columns: usize, rows: usize) -> Terminal<'u> {
        Terminal::with_shell(user, columns, rows, "sh")
    }

    fn with_shell(user: &'u User, columns: usize, rows: usize, shell: &str) -> Terminal<'u> {
        let socket = format!("annals-test-{}-{}", std::process::id(), annals::ids::new_part());
        let terminal = Terminal { user, socket };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let root = user.root().display();
        let bin = user.root().join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        let _ = std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_annals"), bin.join("annals"));
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let now = super::kit::NOW;
        let start = format!(
            "cd {root} && env -i TERM=$TERM PATH='{path}' HOME={root} LC_ALL=C.UTF-8 ANNALS_NOW={now} TZ=UTC PS1='$ ' {shell}"
        );
        terminal.tmux(&["new-session", "-d", "-x", &columns, "-y", &rows, &start]);
        terminal.type_line("clear; echo rea''dy");
        terminal.wait_for("ready");
        terminal.type_line("clear");
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("tmux");
        // A configuration of the user's own must not change what is tested.
        command.args(["-L", &self.socket, "-f", "/dev/null", "-u"]).args(arguments).env("LC_ALL", "C.UTF-8");
        let output = command.output().expect("tmux is installed: scripts/test does");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    fn type_line(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.keys(&["Enter"]);
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen is as wanted, and returns it.
    fn wait_until(&self, what: &str, is_wanted: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let screen = self.screen();
            if is_wanted(&screen) {
                return screen;
            }
            assert!(began.elapsed() < PATIENCE, "{what} did not appear:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn wait_for(&self, text: &str) -> String {
        self.wait_until(text, |screen| screen.contains(text))
    }

    /// Waits until the shell has the terminal again, and returns the exit code of its last command.
    fn exit_code(&self) -> String {
        // What is typed is on the screen too, but not with a number.
        fn printed(screen: &str) -> Option<String> {
            let pieces = screen.rsplit("code=").filter_map(|piece| piece.split_once('='));
            let mut codes = pieces.map(|(code, _)| code).filter(|code| code.parse::<u8>().is_ok());
            codes.next().map(str::to_owned)
        }
        self.type_line("echo \"code=$?=\"");
        let screen = self.wait_until("an exit code", |screen| printed(screen).is_some());
        printed(&screen).unwrap()
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
        let _ = self.user;
    }
}

fn user() -> User {
    let user = User::new();
    for n in 1..=30 {
        let title = format!("Session number {n}");
        user.write_session(&format!("36{n:02}aaffe{n}"), &title, "Look at the cart", "It is empty");
    }
    user.write_session("37aaaaffe1", "Coupon rules", "How are coupons rounded?", "Half up.");
    user
}

#[test]
fn a_session_that_is_not_named_is_chosen() {
    let user = user();
    let terminal = Terminal::new(&user, 80, 24);
    terminal.type_line("annals show");
    let screen = terminal.wait_for("Which session?");
    assert!(screen.contains("Session number"), "{screen}");
    terminal.tmux(&["send-keys", "-l", "coupon"]);
    let screen = terminal.wait_until("only the coupons", |screen| !screen.contains("Session number"));
    assert!(screen.contains("Coupon rules"), "{screen}");
    terminal.keys(&["Enter"]);
    let screen = terminal.wait_for("Half up.");
    assert!(screen.contains("How are coupons rounded?"), "{screen}");
    // Several sessions fit: arrows choose among them.
    terminal.type_line("clear; annals todo 'session number'");
    terminal.wait_for("sessions match");
    terminal.keys(&["Down", "Enter"]);
    terminal.wait_for("has no todo list");
    assert_eq!(terminal.exit_code(), "0");
}

#[test]
fn ctrl_c_leaves_the_terminal_as_it_was() {
    let user = user();
    let terminal = Terminal::new(&user, 80, 24);
    terminal.type_line("annals show");
    terminal.wait_for("Which session?");
    terminal.keys(&["C-c"]);
    assert_eq!(terminal.exit_code(), "130");
    assert_eq!(
        terminal.tmux(&["display-message", "-p", "#{cursor_flag}"]).trim(),
        "1",
        "the cursor is hidden"
    );
    // Escape is a no, too.
    terminal.type_line("clear; annals show");
    terminal.wait_for("Which session?");
    terminal.keys(&["Escape"]);
    terminal.wait_for("nothing was chosen");
    assert_eq!(terminal.exit_code(), "1");
}

#[test]
fn long_output_is_paged_and_short_output_is_not() {
    let user = user();
    let terminal = Terminal::new(&user, 80, 24);
    terminal.type_line("annals list");
    let screen = terminal.wait_for("Session number");
    assert!(screen.lines().last().unwrap_or_default().starts_with(':') || screen.contains("\n:"), "{screen}");
    terminal.keys(&["G"]);
    terminal.wait_for("31 sessions");
    terminal.keys(&["q"]);
    assert_eq!(terminal.exit_code(), "0");
    terminal.type_line("clear; annals list -n 3; echo af''ter");
    let screen = terminal.wait_for("after");
    assert!(screen.contains("3 of 31 sessions"), "{screen}");
    // Ctrl-C in the pager goes to the pager; the command ends when the pager does.
    terminal.type_line("clear; annals list");
    terminal.wait_for("Session number");
    terminal.keys(&["C-c"]);
    terminal.keys(&["q"]);
    terminal.wait_until("the prompt", |screen| screen.trim_end().ends_with('$'));
    terminal.type_line("clear; echo still he''re");
    terminal.wait_for("still here");
}

#[test]
fn tables_follow_the_size_of_the_terminal() {
    let user = user();
    let terminal = Terminal::new(&user, 120, 24);
    terminal.type_line("annals list -n 3");
    let wide = terminal.wait_for("3 of 31 sessions");
    assert!(wide.contains("TOKENS") && wide.contains("COST"), "{wide}");
    terminal.tmux(&["resize-window", "-x", "40", "-y", "24"]);
    terminal.type_line("clear; annals list -n 4");
    let narrow = terminal.wait_for("4 of 31 sessions");
    assert!(narrow.contains("TITLE") && !narrow.contains("TOKENS"), "{narrow}");
    assert!(narrow.lines().any(|line| line.ends_with("Session number 4")), "{narrow}");
}

#[test]
fn a_dumb_terminal_gets_plain_text() {
    let user = user();
    let terminal = Terminal::new(&user, 80, 24);
    terminal.type_line("export TERM=dumb");
    terminal.type_line("clear; annals show; annals list -n 2 | cat; echo af''ter");
    let screen = terminal.wait_for("after");
    // Nobody can be asked there.
    assert!(screen.contains("which session?"), "{screen}");
    assert!(screen.contains("Session number 2"), "{screen}");
}

/// The overview is made for a screen of 24 lines.
#[test]
fn the_overview_fits_on_a_screen() {
    let user = User::with("opencode-1.1.65");
    for columns in [80, 120] {
        let terminal = Terminal::new(&user, columns, 24);
        terminal.type_line("annals");
        let screen = terminal.wait_for("annals list · show last");
        assert!(screen.contains("121 sessions in 4 projects"), "{columns}: the top is gone\n{screen}");
    }
}

/// Shells complete what is in the user's store. Each is the real one.
#[test]
fn shells_complete_sessions_and_models() {
    let user = user();
    let _ = user.annals(&["sync"]).run().ok();
    for (shell, source) in [
        ("bash --norc --noprofile", "source <(annals completions bash)"),
        ("zsh -f", "autoload -U compinit; compinit -D; source <(annals completions zsh)"),
        ("fish --no-config", "annals completions fish | source"),
    ] {
        let terminal = Terminal::with_shell(&user, 100, 24, shell);
        terminal.type_line(&format!("clear; {source}; echo lis''tening"));
        terminal.wait_for("listening");
        // A unique beginning is completed, also of a title.
        terminal.tmux(&["send-keys", "-l", "annals show 37a"]);
        terminal.keys(&["Tab"]);
        terminal.wait_for("annals show 37aaaa");
        terminal.keys(&["Enter"]);
        terminal.wait_for("Half up.");
        terminal.tmux(&["send-keys", "-l", "annals list -n 1 --model la"]);
        terminal.keys(&["Tab"]);
        terminal.wait_for("--model lab/lab-large");
        terminal.keys(&["Enter"]);
        terminal.wait_for("1 of 31 sessions");
    }
}
