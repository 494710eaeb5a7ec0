package approval

import (
	"fmt"
	"regexp"
	"strings"
)

// Default is the allowlist of a daemon whose configuration has none. It contains
// programs that only read and start no other program, and the commands without a
// program. options has the exceptions.
var Default = []string{
	"basename", "cat", "cd", "cmp", "comm", "cut", "date", "diff", "dirname", "du", "echo", "false", "grep", "head", "ls", "md5sum", "nl", "pwd",
	"realpath", "sha256sum", "sort", "stat", "tail", "tr", "true", "uname", "uniq", "wc", "whoami",
}

// own are the names of Default that need no program.
var own = []string{"cd", "echo", "false", "pwd", "true"}

// options are the words of a program of Default that begin with "-", for programs
// with other options that write or start a program: diff -l, sort -o and
// --compress-program. date also sets the clock.
var options = map[string]*regexp.Regexp{
	"date": regexp.MustCompile(`^(-u|-R|-I[a-z]*|-d.+|--date=.*|--utc|--iso-8601(=[a-z]+)?|--rfc-3339=[a-z]+)$`),
	"diff": regexp.MustCompile(`^(-|-[abBdEiNnpqrstTuwyZ]+|-[UC][0-9]+|--(brief|color=never|recursive|unified(=[0-9]+)?|ignore-[a-z-]+|side-by-side|strip-trailing-cr))$`),
	"sort": regexp.MustCompile(`^(-|-[bcCdfghiMnRrsuVz]*([kt][^oST]*)?|--(numeric|human-numeric|version|general-numeric)-sort|--(reverse|unique))$`),
	"uniq": regexp.MustCompile(`^(-|-[cdDuiz]+|-[fsw][0-9]+|--(count|repeated|unique|ignore-case))$`),
}

// checkWords returns an error if the words of a program of Default have an option
// or operand that may write or start a program.
func checkWords(words []string) error {
	allowed := options[words[0]]
	operands := 0
	for _, w := range words[1:] {
		switch {
		case allowed != nil && strings.HasPrefix(w, "-") && !allowed.MatchString(w):
			return fmt.Errorf("%s %s may do more than read", words[0], w)
		case w == "-" || !strings.HasPrefix(w, "-") && (words[0] != "date" || !strings.HasPrefix(w, "+")):
			operands++
		}
	}
	if words[0] == "uniq" && operands > 1 || words[0] == "date" && operands > 0 { // uniq IN OUT, date TIME
		return fmt.Errorf("%s with an operand may do more than read", words[0])
	}
	return nil
}

// multicall are programs that contain others: each counts as the applet that it
// runs.
var multicall = []string{"busybox", "busybox.static", "coreutils", "toybox"}

// builtins are the builtins and reserved words of bash, without own. A program of
// such a name differs from what the text means in bash.
var builtins = []string{
	".", ":", "[", "alias", "bg", "bind", "break", "builtin", "caller", "case", "command", "compgen", "complete", "compopt", "continue", "coproc", "declare",
	"dirs", "disown", "do", "done", "elif", "else", "enable", "esac", "eval", "exec", "exit", "export", "fc", "fg", "fi", "for", "function",
	"getopts", "hash", "help", "history", "if", "in", "jobs", "kill", "let", "local", "logout", "mapfile", "popd", "printf", "pushd", "read", "readarray",
	"readonly", "return", "select", "set", "shift", "shopt", "source", "suspend", "test", "then", "time", "times", "trap", "type", "typeset", "ulimit",
	"umask", "unalias", "unset", "until", "wait", "while",
}

// runners are programs that run their arguments, a script, the text of a file, or
// a program that an option names. A prefix of one would permit every command. Their
// names have no version.
var runners = strings.Fields(`
	ash bash csh dash elvish fish ksh ksh93 mksh nu oksh osh posh pwsh rbash rc sh tcsh xonsh yash zsh
	awk gawk mawk nawk original-awk bc bun clisp dc deno elixir emacs erl escript expect gdb ghci gnuplot groovy guile iex irb java jjs julia jshell
	lldb lua luajit m4 node nodejs ocaml octave perl php phpdbg pypy pypy3 python python2 python3 racket raku runghc runhaskell ruby sbcl scala swift swipl
	sqlite sqlite3 tclsh ts-node tsx wish R Rscript psql mysql mariadb mongosh redis-cli
	busybox busybox.static coreutils toybox
	at batch bwrap capsh catchsegv chpst choom chroot chrt cpulimit crontab dbus-launch dbus-run-session doas dumb-init env entr fakeroot faketime firejail
	flock gosu i386 ionice isolate linux32 linux64 ltrace monit ncat nc netcat newgrp nice nohup nsenter numactl parallel perf pkexec prlimit proot proxychains
	proxychains4 rlwrap run-parts runcon runuser runsv s6-svscan schroot screen script scriptlive setarch setpriv setsid setsidwait sg socat
	softlimit start-stop-daemon stdbuf strace su sudo supervisord systemd-inhibit systemd-nspawn systemd-run taskset tclkit time timelimit timeout tini tmux
	torsocks torify tsocks unbuffer uncover unshare valgrind watch watchexec watchman x86_64 xargs xvfb-run zellij
	ag fd fdfind find locate rg ripgrep ugrep fzf
	autossh dropbear mosh rsync scp sftp ssh ssh-agent ssh-add ssh-copy-id sshfs sshpass telnet wget
	7z 7za ar bsdtar cpio gtar star tar unzip zip
	ant autoconf automake bazel bmake buck buck2 cmake configure ctest earthly gmake gradle gradlew invoke just make mage meson mvn ninja nmake nox pre-commit rake
	samu scons task tox tup waf
	as c++ cc clang clang++ cpp g++ gcc gcov gfortran ld ld.bfd ld.gold ld.lld ld.so mold rustc tcc
	bat delta ed emacsclient ex helix hx kak less lesspipe man mc micro more most nano nvim pager pg pico ranger rview rvim sed sensible-editor
	sensible-pager sensible-browser vi view vim vimdiff vim.basic vim.tiny vipw visudo xdg-open open
	buildah containerd ctr crictl docker docker-compose lxc lxc-attach lxc-execute machinectl minikube nerdctl podman runc crun vagrant virsh
	bunx conda corepack hatch mamba nix nix-shell nix-build npx pdm pipenv pipx pixi pnpx poetry rye uvx pyenv rbenv nodenv mise asdf direnv
	dpkg git-shell gitk gpg ip logrotate logger mail mailx mutt nmap openssl patch pdsh pssh ansible ansible-playbook salt puppet chef
	rpm run-mailcap sendmail split tclsh tcpdump tig lazygit xterm gnome-terminal konsole kitty alacritty xdotool osascript launchctl open
	bzr cvs diff fossil fusermount hg install jj mount sort svn
`)

// families are programs whose first argument is a subcommand. A prefix has the
// subcommand.
var families = []string{
	"apt", "apt-get", "brew", "cargo", "gh", "git", "go", "helm", "journalctl", "kubectl", "npm", "pip", "pip3", "pnpm", "systemctl", "terraform", "uv", "yarn",
}

// runs are the subcommands of families that run other programs, or the texts of
// files.
var runs = []string{
	"alias", "attach", "bench", "bisect", "build", "ci", "console", "create", "config", "daemon", "debug", "dlx", "edit", "env", "exec", "extension",
	"filter-branch", "fmt", "difftool", "generate", "grep", "hook", "init", "install-scripts", "mergetool", "miri", "plugin", "rebase", "restart", "run",
	"run-script", "rustc", "shell", "start", "stop", "submodule", "t", "test", "tool", "tst", "vet", "x",
}
