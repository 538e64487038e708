//! What the screen looks like.

use annals_testkit::Fixture;
use insta::assert_snapshot;

use super::kit::{annals, empty_home, write};

#[test]
fn overview() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    assert_snapshot!(annals(fixture.home(), &[]).run(), @"
    exit 0
    121 sessions in 4 projects · this week 65 sessions, $1.54
      36f8c14  19h ago  shop-api  Document check (2)
      36f8c0   19h ago  shop-api  ◌ TODO markers in src (2)
      36f8c13  19h ago  shop-api  ◌ Overloaded provider
      36f8c15  19h ago  shop-api  ◌ Document check (2)
      36f8c19  19h ago  shop-api  ◌ Payment triage (2)
      36f8c1c  19h ago  shop-api  ◌ Empty todo list (2)
      36f8c1d  19h ago  shop-api  ◌ A note outside the project (2)
      36f8c1f  19h ago  shop-api  ◌ Reading large files (2)

    Needs attention
      17 failed in 7 days  annals list --since 7d --status failed
      11 not ended in 7 days  annals list --since 7d --status open

    Kept in
      HOME  121 sessions, 1.2 MB

    annals list · show last · search WORDS · stats · --help
    ");
}

#[test]
fn list() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    assert_snapshot!(annals(fixture.home(), &["list", "-n", "12"]).run(), @"
    exit 0
    ID       UPDATED  MSGS  TOKENS      COST  TITLE
    36f8c14  19h ago     4     13k   $0.0182  Document check (2)
    36f8c0   19h ago     2       0        $0  ◌ TODO markers in src (2)
    36f8c13  19h ago     7     38k   $0.0539  ◌ Overloaded provider
    36f8c15  19h ago     2       0        $0  ◌ Document check (2)
    36f8c19  19h ago     2       0        $0  ◌ Payment triage (2) ↳1
    36f8c1c  19h ago     2       0        $0  ◌ Empty todo list (2)
    36f8c1d  19h ago     2       0        $0  ◌ A note outside the project (2)
    36f8c1f  19h ago     2       0        $0  ◌ Reading large files (2)
    36f8c25  19h ago     4     35k   $0.0218  Rejected key (2)
    36f8c2f  19h ago     8     61k   $0.0471  Overloaded provider (2)
    36f8c39  19h ago     8     63k   $0.0911  Overloaded provider (2)
    36f8c3c  19h ago     2     13k   $0.0179  ✗ Rate limits (2)
    -- stderr
    12 of 112 sessions, and 9 that they started (`--all`)
    ");
    assert_snapshot!(annals(fixture.home(), &["list", "--project", "notes-cli"]).run(), @"
    exit 0
    ID      UPDATED       MSGS  TOKENS      COST  TITLE
    39020d  Feb 18 08:30     4     38k   $0.0535  Malformed tool calls
    -- stderr
    1 of 121 sessions
    ");
    assert_snapshot!(annals(fixture.home(), &["list", "--archived"]).run(), @"
    exit 0
    ID       UPDATED  MSGS  TOKENS      COST  TITLE
    36f8ca5  19h ago     2     13k   $0.0174  Running the service locally (2) [archived]
    -- stderr
    1 of 121 sessions
    ");
    assert_snapshot!(annals(fixture.home(), &["list", "--sort", "cost", "-n", "3", "--since", "2026-02-20"]).run(), @"
    exit 0
    ID       UPDATED    MSGS  TOKENS      COST  TITLE
    37f7f6   Sat 14:00    60    392k     $0.55  Running the service locally (2)
    37f7f1   Sat 14:00     9    311k     $0.43  Order totals and refunds (2)
    3857439  Fri 10:15    15    188k     $0.27  Reading large files
    -- stderr
    3 of 94 that match, of 112 sessions, and 9 that they started (`--all`)
    ");
    assert_snapshot!(annals(fixture.home(), &["list", "--model", "gpt-5", "--agent", "build"]).run(), @"
    exit 0
    ID       UPDATED  MSGS  TOKENS      COST  TITLE
    36f8c25  19h ago     4     35k   $0.0218  Rejected key (2)
    36f8c2f  19h ago     8     61k   $0.0471  Overloaded provider (2)
    -- stderr
    2 of 121 sessions
    ");
    assert_snapshot!(annals(fixture.home(), &["list", "--dir", "/home/dev/scratch"]).run(), @"
    exit 0
    ID       UPDATED       MSGS  TOKENS      COST  TITLE
    39020e9  Feb 18 08:30     2     12k   $0.0177  Second scratch session
    39020f3  Feb 18 08:30     3     25k   $0.0351  Rounding of negative amounts
    -- stderr
    2 of 121 sessions
    ");
    assert_snapshot!(annals(empty_home().path(), &["list"]).run().code, @"0");
}

#[test]
fn show_a_conversation_with_tools() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    assert_snapshot!(annals(fixture.home(), &["show", "385744ad0"]).run(), @r#"
    exit 0
    "Health" helper & rounding
    ses_385744ad0ffeWgvBCB6JclCZJ1 · /home/dev/projects/shop-api · 2026-02-20 10:15
    8 messages · 91k tokens · context 13k · $0.13 · 2 files changed, +2 −1 ·
    lab/lab-large

    1. You to build                                                         10:15:02
    ▌ Please tidy up the helpers [[scenario:tools]]

      ∴ First find the files.
      ∴ Then the TODO markers.

      I will look at the tree, then change it.

      ✓ glob  **/*.ts                                                           18ms
        │ /home/dev/projects/shop-api/test/orders.test.ts
        │ /home/dev/projects/shop-api/src/server.ts
        │ /home/dev/projects/shop-api/src/orders.ts
        │ /home/dev/projects/shop-api/src/util/money.ts

      ∴ Now the markers.

      ✓ grep  TODO in *.ts                                                      10ms
        │ Found 2 matches
        │ /home/dev/projects/shop-api/src/util/money.ts:
        │   Line 1: // TODO: rounding of negative amounts
        │
        │ … 2 more lines

      ✓ read  src/util/money.ts                                         5 lines  4ms

      The rounding is the interesting one.

      ✓ edit  src/util/money.ts                                                 12ms
        │ @@ -1,4 +1,4 @@
        │ -// TODO: rounding of negative amounts
        │ +// rounds half up
        │  export function cents(amount: number) {
        │    return Math.round(amount * 100)
        │  }

      ✓ write  src/util/health.ts                                                4ms
        │ +export const health = () => ({ status: "ok" })

      ✓ bash  ls src/util && wc -l src/util/*.ts                                57ms
        │ health.ts
        │ money.ts
        │   1 src/util/health.ts
        │   4 src/util/money.ts
        │ … 1 more line

      ∴ All done, summarise.

      Changed `money.ts`, added `health.ts`.

      changed src/util/health.ts +1 −0, src/util/money.ts +1 −1
      build · lab/lab-large · 7 steps · 37k in · 234 out · 54k cached · $0.13 · 2.3s

    annals resume ses_385744ad0ffeWgvBCB6JclCZJ1
    "#);
}

#[test]
fn show_subagents_errors_and_cut_answers() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    assert_snapshot!(annals(fixture.home(), &["show", "38573edc7"]).run(), @"
    exit 0
    Plan for the health route
    ses_38573edc7ffe7XvFzqvcmD1iz5 · /home/dev/projects/shop-api · 2026-02-20 10:15
    6 messages · 65k tokens · context 14k · $0.0948 · lab/lab-large

    1. You to build                                                         10:15:26
    Plan for the health route second line
    ▌ Make a plan for the health route [[scenario:todo]]

      Let me write a list.

      ✓ todowrite  3 todos                                                      10ms
        │ ▸ Read the code
        │ ○ Add a health route
        │ ○ Write a test

      ✓ read  src/server.ts                                            10 lines  2ms
      ✓ todowrite  2 todos                                                       2ms
        │ ✓ Read the code
        │ ▸ Add a health route
        │ ○ Write a test

      ✓ todowrite  2 todos                                                       4ms
        │ ✓ Read the code
        │ ✓ Add a health route
        │ ✗ Write a test ✓
        │ ○ Release

      Three of the four items are settled.

      build · lab/lab-large · 5 steps · 26k in · 280 out · 39k cached · $0.0948 ·
      1.3s

    annals resume ses_38573edc7ffe7XvFzqvcmD1iz5
    ");
    assert_snapshot!(annals(fixture.home(), &["show", "385743923"]).run(), @"
    exit 0
    Reading large files
    ses_385743923ffehR7BAiLi2Ha1rF · /home/dev/projects/shop-api · 2026-02-20 10:15
    15 messages · 188k tokens · context 14k · $0.27 · lab/lab-large

    1. You to build                                                         10:15:06
    ▌ Try a few things that cannot work [[scenario:failing]]

      ✗ read  /home/dev/projects/shop-api/nope/missing.ts                        2ms
        │ Error: ENOENT: no such file or directory, scandir
        │ '/home/dev/projects/shop-api/nope'

      ✗ edit  /home/dev/projects/shop-api/src/orders.ts                          2ms
        │ Error: You must read file /home/dev/projects/shop-api/src/orders.ts before
        │ overwriting it. Use the Read tool first

      ✓ read  src/orders.ts                                            29 lines  5ms
      ✗ edit  /home/dev/projects/shop-api/src/orders.ts                          6ms
        │ Error: Could not find oldString in the file. It must match exactly,
        │ including whitespace, indentation, and line endings.

      ✗ edit  /home/dev/projects/shop-api/src/orders.ts                          2ms
        │ Error: Found multiple matches for oldString. Provide more surrounding
        │ context to make the match unique.

      ✗ bash  echo out; echo err >&2; exit 7                             exit 7  8ms
        │ out
        │ err

      ✓ bash  sleep 5                                                          405ms
        │ <bash_metadata>
        │ bash tool terminated command after exceeding timeout 300 ms
        │ </bash_metadata>

      ✓ grep  (unclosed in /home/dev/projects/shop-api/src                       3ms
        │ No files found

      ✓ glob  **/*.nothing                                                       7ms
        │ No files found

      ✗ webfetch  http://127.0.0.1:4319/pages/absent.html                        2ms
        │ Error: Request failed with status code: 404

      ✗ webfetch  ftp://example.com/x                                            1ms
        │ Error: URL must start with http:// or https://

      ✗ read  /home/dev/projects/shop-api/assets/blob.bin                        3ms
        │ Error: Cannot read binary file: /home/dev/projects/shop-
        │ api/assets/blob.bin

      ✗ task  Ask nobody (@nobody)                                               2ms
        │ Error: Unknown agent type: nobody is not a valid agent type

      None of these worked, as expected.

      build · lab/lab-large · 14 steps · 76k in · 348 out · 112k cached · $0.27 ·
      4.7s

    annals resume ses_385743923ffehR7BAiLi2Ha1rF
    ");
    assert_snapshot!(annals(fixture.home(), &["show", "37f7fe572"]).run(), @"
    exit 0
    Two subagents
    ses_37f7fe572ffeneN4vs3kZeD3a3 · /home/dev/projects/shop-api · 2026-02-21 14:00
    3 messages · 26k tokens · context 13k · $0.0365 · lab/lab-large

    1. You to build                                                         14:00:05
    ▌ Check sources and docs [[scenario:task-parallel]]

      ✓ task  Explore sources (@explore)                                       468ms
        ↳ ses_37f7fe445ffejN1QLm1a4Kx9Lj  Explore sources (@ex…  3 messages, $0.0153

      ✓ task  Check the docs (@reviewer)                                       454ms
        ↳ ses_37f7fe443ffedE4o7LMHbx4hmy  Check the docs (@rev…  3 messages, $0.0012

      Both are back: three sources, two documents.

      build · lab/lab-large · 2 steps · 10k in · 83 out · 15k cached · $0.0365 ·
      854ms

    annals resume ses_37f7fe572ffeneN4vs3kZeD3a3
    ");
    assert_snapshot!(annals(fixture.home(), &["show", "39a5210fc"]).run(), @r#"
    exit 0
    Working session
    ses_39a5210fcffe8vOnMTXxBepuKu · /home/dev/projects/shop-api · 2026-02-16 09:00
    2 messages · lab/lab-large

    1. You to build                                                         09:00:23
    ▌ "This request is refused [[scenario:error-400]]"

      ✗ APIError 400
        │ Invalid request: bad value

      build · lab/lab-large · 153ms

    annals resume ses_39a5210fcffe8vOnMTXxBepuKu
    "#);
    assert_snapshot!(annals(fixture.home(), &["show", "36f8c19c7"]).run(), @"
    exit 0
    Payment triage (2)
    ses_36f8c19c7ffeacPFtrDKgSFycf · /home/dev/projects/shop-api · 2026-02-24 16:20
    2 messages · lab/lab-large

    1. You to build                                                         16:20:40
    ▌ Start [[scenario:task-hang]]

      A subagent will do it.

      ◌ task  Endless search (@general)                         running, never ended
        ↳ ses_36f8c189affeGpclVtEXr9AJPv  Endless search (@gen…  3 messages, $0.0118
      ◌ unfinished: it was interrupted

      build · lab/lab-large

    annals resume ses_36f8c19c7ffeacPFtrDKgSFycf
    ");
    assert_snapshot!(annals(fixture.home(), &["show", "385744ad0", "--tools", "none"]).run(), @r#"
    exit 0
    "Health" helper & rounding
    ses_385744ad0ffeWgvBCB6JclCZJ1 · /home/dev/projects/shop-api · 2026-02-20 10:15
    8 messages · 91k tokens · context 13k · $0.13 · 2 files changed, +2 −1 ·
    lab/lab-large

    1. You to build                                                         10:15:02
    ▌ Please tidy up the helpers [[scenario:tools]]

      ∴ First find the files.
      ∴ Then the TODO markers.

      I will look at the tree, then change it.

      ∴ Now the markers.

      The rounding is the interesting one.

      ∴ All done, summarise.

      Changed `money.ts`, added `health.ts`.

      changed src/util/health.ts +1 −0, src/util/money.ts +1 −1
      build · lab/lab-large · 7 steps · 37k in · 234 out · 54k cached · $0.13 · 2.3s

    annals resume ses_385744ad0ffeWgvBCB6JclCZJ1
    "#);
}

#[test]
fn tree_todo_stats_check() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    assert_snapshot!(annals(fixture.home(), &["tree", "37f7fe572"]).run(), @"
    exit 0
    ✓ 37f7fe5  Two subagents  build  $0.0365
    ├─ ✓ 37f7fe445  Explore sources (@explore subagent)  explore  $0.0153
    └─ ✓ 37f7fe443  Check the docs (@reviewer subagent)  reviewer  $0.0012
    ");
    assert_snapshot!(annals(fixture.home(), &["stats"]).run(), @"
    exit 0
    Sessions   121  with 521 messages and 1,242 parts, over 9 days
    Cost       $5.21  $0.58 a day
    Tokens     3.8M  1.5M in · 17k out · 219 reasoning · 2.2M cache read · 512 cache
                     written
    A session  31k  tokens on average, 13k median
    Copied     $0.14  of that in 8 answers that forks copied
    Daily      2026-02-16 ▂ ▂ ▅█ ▄▄ 2026-02-24

    MODEL                    SESSIONS   ANSWERS   TOKENS       COST
    lab/lab-large                 115       291     3.5M      $5.04  ███████████████
    labthropic/claude-lab-4         1         4      50k    $0.0730  ▎
    labai/gpt-5-lab                 2         7      83k    $0.0508  ▏
    lab/lab-think                   2         5      65k    $0.0399  ▏
    lab/lab-small                   3         4      38k    $0.0039  ▏
    lab/lab-tight                   2         6      70k    $0.0028  ▏

    TOOL        CALLS   SHARE   FAILED   MEDIAN
    read           56   33.9%       10      5ms  ████████████████████████
    bash           28   17.0%        7     26ms  ████████████
    webfetch       13    7.9%        2      8ms  █████▋
    glob           11    6.7%        1     11ms  ████▊
    edit           10    6.1%        3     10ms  ████▎
    write          10    6.1%        1      4ms  ████▎
    grep            9    5.5%        -      8ms  ███▉
    task            9    5.5%        2    402ms  ███▉
    … 11 more with 19 calls; `--tools` shows them
    ");
    assert_snapshot!(annals(fixture.home(), &["stats", "--by", "day"]).run(), @"
    exit 0
    DAY         SESSIONS   ANSWERS   TOKENS       COST
    2026-02-16         8        17     205k      $0.29  ███▋
    2026-02-18        11        21     264k      $0.35  ████▍
    2026-02-20        12        64     837k      $1.13  ██████████████▎
    2026-02-21        25       104     1.4M      $1.90  ████████████████████████
    2026-02-23        34        49     405k      $0.71  █████████
    2026-02-24        31        62     637k      $0.83  ██████████▌
    total            120       317     3.8M      $5.21
    ");
    assert_snapshot!(annals(fixture.home(), &["stats", "--by", "project"]).run(), @"
    exit 0
    PROJECT                       SESSIONS   ANSWERS   TOKENS       COST
    /home/dev/projects/shop-api        115       307     3.7M      $5.03  ██████████
    (no repository)                      3         5      62k    $0.0879  ▏
    /home/dev/projects/notes-cli         1         3      38k    $0.0535  ▏
    /home/dev/projects/vanished          1         2      25k    $0.0351  ▏
    total                              120       317     3.8M      $5.21
    ");
    assert_snapshot!(annals(fixture.home(), &["todo", "38573edc7"]).run(), @"
    exit 0
    ✓ Read the code [high]
    ✓ Add a health route
    ✗ Write a test ✓
    ○ Release [high]
    -- stderr
    2 of 4 done
    ");
    assert_snapshot!(annals(fixture.home(), &["check"]).run(), @"
    exit 0
    note: 10 orphan-parts in HOME
      remove what belongs to nothing: `annals housekeeping --free orphans`
      storage/part/msg_c80804996001MgLP1Aen0NyFqs
        1 part of a message of session ses_37f7fbb35ffe6FiUg3LMd01prs that does not
        exist
        session ses_37f7fbb35ffe6FiUg3LMd01prs  Sat 14:00  Entry point
      storage/part/msg_c8080499b001MCXbZSnFSC45XZ
        3 parts of a message of session ses_37f7fbb35ffe6FiUg3LMd01prs that does not
        exist
        session ses_37f7fbb35ffe6FiUg3LMd01prs  Sat 14:00  Entry point
      storage/part/msg_c80804ac7001lY3SKRtzHjdyKA
        4 parts of a message of session ses_37f7fbb35ffe6FiUg3LMd01prs that does not
        exist
        session ses_37f7fbb35ffe6FiUg3LMd01prs  Sat 14:00  Entry point
      storage/part/msg_c80804c34001Q48rRJ26nHS6gg
        3 parts of a message of session ses_37f7fbb35ffe6FiUg3LMd01prs that does not
        exist
        session ses_37f7fbb35ffe6FiUg3LMd01prs  Sat 14:00  Entry point
      storage/part/msg_c80804e59001JDzvfkG7NXMkIR
        1 part of a message of session ses_37f7fbb35ffe6FiUg3LMd01prs that does not
        exist
        session ses_37f7fbb35ffe6FiUg3LMd01prs  Sat 14:00  Entry point
      … and 5 more; `--all` shows them
    note: 4 orphan-file in HOME
      remove what belongs to nothing: `annals housekeeping --free orphans`
      storage/session_diff/ses_36f8c8ebbffe5OYZBt0vhyZ0Ri.json
        belongs to session ses_36f8c8ebbffe5OYZBt0vhyZ0Ri, which does not exist
      storage/session_diff/ses_36f8c94a6ffeIVE675pPrd7YKM.json
        belongs to session ses_36f8c94a6ffeIVE675pPrd7YKM, which does not exist
      storage/session_diff/ses_36f8c95e3ffe66JXZuOr5i0OhE.json
        belongs to session ses_36f8c95e3ffe66JXZuOr5i0OhE, which does not exist
      storage/todo/ses_36f8c8ebbffe5OYZBt0vhyZ0Ri.json
        belongs to session ses_36f8c8ebbffe5OYZBt0vhyZ0Ri, which does not exist
    note: 6 stuck-tool in HOME
      close the call: `annals check --fix`
      storage/part/msg_c9073e3ce0019lPev4lBkJ0PYL/prt_c9073e4e60012K1Wz2h4EJc8oz.json
        the call of `write` is still pending
        session ses_36f8c1c3fffeA15RGLCizjYaqS  19h ago  Empty todo list (2)
      storage/part/msg_c9073e64e001Y3DKhb2u6fFffA/prt_c9073e7620018DG75c657hvCcb.json
        the call of `task` is still running
        session ses_36f8c19c7ffeacPFtrDKgSFycf  19h ago  Payment triage (2)
      storage/part/msg_c9073ea11001iZv8CzbquEGaJM/prt_c9073eb4e001XtNuncEqomIVra.json
        the call of `bash` is still running
        session ses_36f8c15feffe9v7ppw6x6YLnFb  19h ago  Document check (2)
      storage/part/msg_c9073ea11001iZv8CzbquEGaJM/prt_c9073eb51001Pwy0JYMLNR80dn.json
        the call of `bash` is still running
        session ses_36f8c15feffe9v7ppw6x6YLnFb  19h ago  Document check (2)
      storage/part/msg_c9073eb6d0018OXgtEiBNVko3A/prt_c9073ec9d0013k59j34SHKjaBh.json
        the call of `bash` is still running
        session ses_36f8c14a0ffeUi9PZkXTmCh38x  19h ago  Document check (2)
      … and 1 more; `--all` shows them
    note: 9 unfinished-message in HOME
      close the turn: `annals check --fix`
      storage/message/ses_36f8c0bdbffeJCGNOlUf64HURJ/msg_c9073f43100113w28XDkQHSUnu.json
        the answer never ended; OpenCode was probably killed
        session ses_36f8c0bdbffeJCGNOlUf64HURJ  19h ago  TODO markers in src (2)
      storage/message/ses_36f8c1308ffeXhYfuPByqECB5n/msg_c9073f2ce001L77uWLWPWp1Y5t.json
        the answer never ended; OpenCode was probably killed
        session ses_36f8c1308ffeXhYfuPByqECB5n  19h ago  Overloaded provider
      storage/message/ses_36f8c14a0ffeUi9PZkXTmCh38x/msg_c9073eb6d0018OXgtEiBNVko3A.json
        the answer never ended; OpenCode was probably killed
        session ses_36f8c14a0ffeUi9PZkXTmCh38x  19h ago  Document check (2)
      storage/message/ses_36f8c15feffe9v7ppw6x6YLnFb/msg_c9073ea11001iZv8CzbquEGaJM.json
        the answer never ended; OpenCode was probably killed
        session ses_36f8c15feffe9v7ppw6x6YLnFb  19h ago  Document check (2)
      storage/message/ses_36f8c189affeGpclVtEXr9AJPv/msg_c9073e8be001cexK2BWxMKURz2.json
        the answer never ended; OpenCode was probably killed
        session ses_36f8c189affeGpclVtEXr9AJPv  19h ago  Endless search (@general s…
      … and 4 more; `--all` shows them
    29 notes in 121 sessions
    ");
}

/// Colours are for terminals, unless they are asked for.
#[test]
fn colours() {
    let home = empty_home();
    write(
        home.path(),
        "storage/session/global/ses_1.json",
        r#"{"id":"ses_1","title":"Painted","time":{"created":1771950000000,"updated":1771950000000}}"#,
    );
    let has_escapes = |ran: super::kit::Ran| ran.ok().text().contains('\u{1b}');
    assert!(!has_escapes(annals(home.path(), &["list"]).run()));
    assert!(has_escapes(annals(home.path(), &["list", "--color", "always"]).run()));
    assert!(has_escapes(annals(home.path(), &["list"]).env("CLICOLOR_FORCE", "1").run()));
    assert!(!has_escapes(
        annals(home.path(), &["list"]).env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1").run()
    ));
    assert!(!has_escapes(
        annals(home.path(), &["list", "--color", "never"]).env("CLICOLOR_FORCE", "1").run()
    ));
}

/// Every line fits in 80 columns in a pipe, and in fewer where a terminal says so.
#[test]
fn nothing_is_wider_than_the_screen() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let sessions = annals(fixture.home(), &["list", "--json"]).run().ok().json();
    let ids: Vec<&str> = sessions.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    let mut commands: Vec<Vec<&str>> =
        vec![vec![], vec!["list"], vec!["tree", "--all"], vec!["stats", "--tools"], vec!["check"]];
    commands.extend(ids.iter().map(|id| vec!["show", id, "--tools", "full", "--reasoning"]));
    for columns in [80, 60] {
        for command in &commands {
            let ran = annals(fixture.home(), command).env("COLUMNS", columns.to_string()).run();
            for line in ran.text().lines() {
                let width = unicode_width::UnicodeWidthStr::width(line);
                let is_path = line.trim_start().starts_with("storage/");
                assert!(width <= columns || is_path, "{command:?}: {width} > {columns}: {line}");
            }
        }
        commands.truncate(25);
    }
}

/// The README's first command: no OpenCode, no network, nothing but the program. What it prints to try next works.
#[test]
fn demo() {
    let dir = tempfile::tempdir().unwrap();
    // The second one replaces the first.
    let demo = || super::kit::plain(dir.path(), &["demo"]).env("TMPDIR", dir.path()).run().ok();
    assert_eq!(demo().text(), demo().text());
    let left: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".cache"]);
    let ran = demo();
    let text = ran.text();
    for expected in
        ["10 sessions in 3 projects", "Coupon totals differ from invoices", "✗ APIError 400", "↳1"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let commands: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| line.contains(" --home "))
        .collect();
    assert_eq!(commands.len(), 8, "{text}");
    for command in commands {
        let status = std::process::Command::new("bash")
            .args(["-c", command])
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "{command}");
    }
    let kept = super::kit::plain(dir.path(), &["demo", "--dir", "kept", "--json"]).run().ok().json();
    assert_eq!(kept["home"], "kept");
    assert_eq!(super::kit::plain(dir.path(), &["demo", "--dir", "kept"]).run().code, 1);
    // The sample in the binary stays small.
    assert!(
        std::fs::metadata(annals_testkit::workspace().join("crates/cli/demo/home.tar.zst")).unwrap().len()
            < 300 << 10
    );
}

/// The name of the file says what is wanted, and a file that is there stays unless the user says otherwise.
#[test]
fn an_export_follows_the_name_of_its_file_and_overwrites_nothing() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let dir = tempfile::tempdir().unwrap();
    let export = |name: &str, more: &[&str]| {
        let path = dir.path().join(name);
        let arguments = [&["export", "last", "-o", path.to_str().unwrap()], more].concat();
        let ran = annals(fixture.home(), &arguments).run();
        (ran, std::fs::read_to_string(path).unwrap_or_default())
    };
    let (_, markdown) = export("talk.md", &[]);
    assert!(markdown.starts_with("# "), "{markdown}");
    let (_, lines) = export("talk.jsonl", &[]);
    assert!(lines.lines().count() > 3 && lines.lines().all(|line| line.starts_with('{')), "{lines}");
    let (_, json) = export("talk.json", &[]);
    assert!(json.starts_with("{\n  \"info\""), "{json}");
    let (ran, unchanged) = export("talk.md", &["--format", "json"]);
    assert_eq!((ran.code, &unchanged), (1, &markdown), "{ran}");
    assert!(ran.stderr.contains("exists") && ran.stderr.contains("--force"), "{ran}");
    let (ran, replaced) = export("talk.md", &["--format", "json", "--force"]);
    assert_eq!((ran.code, replaced), (0, json), "{ran}");
    // Everything at once can be taken back.
    let (ran, _) = export("all.jsonl", &[]);
    assert_eq!(ran.code, 0);
    let path = dir.path().join("everything.jsonl");
    let _ = annals(fixture.home(), &["export", "--all", "-o", path.to_str().unwrap()]).run().ok();
    let target = dir.path().join("annals-other.db");
    let in_target = |arguments: &[&str]| {
        super::kit::plain(dir.path(), &[&["--home", target.to_str().unwrap()], arguments].concat()).run().ok()
    };
    let ran = in_target(&["import", path.to_str().unwrap()]);
    let listed = in_target(&["list", "--json"]).json();
    let original = annals(fixture.home(), &["list", "--json"]).run().ok().json();
    assert_eq!(listed.as_array().unwrap().len(), original.as_array().unwrap().len(), "{ran}");
}

#[test]
fn an_export_tells_as_much_as_is_asked_for() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let export = |more: &[&str]| {
        let arguments = [&["export", "385744ad0", "--format", "markdown"], more].concat();
        annals(fixture.home(), &arguments).run().ok().text()
    };
    let [reasoning, call, output] = ["> First find the files.", "**glob**", "<details><summary>output"];
    let check = |text: &str, shown: [bool; 3]| {
        assert_eq!([reasoning, call, output].map(|piece| text.contains(piece)), shown, "{text}");
        assert!(text.contains("I will look at the tree, then change it."), "{text}");
    };
    check(&export(&[]), [true, true, true]);
    check(&export(&["--tools", "brief"]), [true, true, false]);
    check(&export(&["--tools", "none", "--no-reasoning"]), [false, false, false]);
    let refused = annals(fixture.home(), &["export", "385744ad0", "--no-reasoning"]).run();
    assert_eq!(refused.code, 2, "{refused}");
    assert!(refused.stderr.contains("--format markdown"), "{refused}");
}
