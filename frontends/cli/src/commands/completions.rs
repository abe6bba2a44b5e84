//! `pantile completions`: completion scripts of shells.

use crate::Program;
use crate::failure::{Outcome, Verdict};
use crate::terminal::print;
use clap::Args;
use clap_complete::Shell;
use pantile::code::families;

/// Print the completion script for a shell
///
/// The script completes commands, options and their values. In bash, zsh and fish it also completes
/// the families of codes where a code is expected. Its place depends on the shell.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  pantile completions bash > /etc/bash_completion.d/pantile
  pantile completions zsh > ~/.zfunc/_pantile
  pantile completions fish > ~/.config/fish/completions/pantile.fish")]
pub struct Completions {
    /// The shell.
    shell: Shell,
}

/// Commands that begin with codes.
const OF_CODES: [&str; 7] = ["show", "explain", "prove", "plan", "compare", "bench", "durability"];

impl Completions {
    pub fn run(self) -> Outcome {
        let mut script = Vec::new();
        let program = Program::current();
        clap_complete::generate(self.shell, &mut program.definition(), program.name(), &mut script);
        let script = String::from_utf8_lossy(&script);
        let families = if program == Program::Pantile { of_families(self.shell) } else { String::new() };
        print(&format!("{script}{families}"))?;
        Ok(Verdict::Good)
    }
}

/// Returns the script that completes the families of codes, each with its colon and without a blank
/// after it.
fn of_families(shell: Shell) -> String {
    let names: Vec<String> = families().iter().map(|family| format!("{}:", family.name)).collect();
    let (names, commands) = (names.join(" "), OF_CODES.join("|"));
    match shell {
        Shell::Bash => format!(
            r#"
_pantile_codes() {{
    _pantile "$@"
    local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}"
    case "$prev" in --code|--codes) ;; *)
        [[ "$cur" != -* && "${{COMP_WORDS[1]}}" =~ ^({commands})$ ]] || return 0 ;;
    esac
    COMPREPLY+=($(compgen -W "{names}" -- "$cur"))
    compopt -o nospace 2>/dev/null
}}
complete -F _pantile_codes -o nosort -o bashdefault -o default pantile
"#
        ),
        Shell::Zsh => format!(
            r#"
_pantile_codes() {{
    _pantile "$@"
    case "$words[CURRENT-1]" in --code|--codes) ;; *)
        [[ "$words[CURRENT]" != -* && "$words[2]" =~ "^({commands})$" ]] || return 0 ;;
    esac
    compadd -S '' -- {names}
}}
(( $+functions[compdef] )) && compdef _pantile_codes pantile
"#
        ),
        Shell::Fish => format!(
            r#"
complete -c pantile -n "string match -qr -- '^--codes?$' (commandline -opc)[-1]" -f -a "{names}"
complete -c pantile -n "__fish_seen_subcommand_from {}" -a "{names}"
"#,
            OF_CODES.join(" ")
        ),
        _ => String::new(),
    }
}
