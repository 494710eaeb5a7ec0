package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"crabmem/bench/gate"
	"crabmem/daemon/sandbox"
	"crabmem/daemon/tool"
	"crabmem/fuzz/race"
)

// userns skips a test, with a message, on a machine that cannot confine
// commands. It fails if CRABMEM_REQUIRE contains userns.
func userns(t *testing.T) {
	t.Helper()
	if err := sandbox.Check(t.Context()); err != nil {
		if slices.Contains(strings.Split(os.Getenv("CRABMEM_REQUIRE"), ","), "userns") {
			t.Fatalf("CRABMEM_REQUIRE=userns, and %v", err)
		}
		t.Skipf("SKIPPED: %v", err)
	}
}

// memoryToken is where an attack finds the token in this process.
var memoryToken = []byte("in memory: " + token)

// prison is a data directory, further hidden paths, and the directory of a
// session in the same home.
type prison struct {
	home, data, work, key string
	abstract              string
	dialed                *atomic.Int32 // connections to its sockets
	vars                  map[string]string
}

func newPrison(t *testing.T, dir string) *prison {
	t.Helper()
	home, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := &prison{home: home, data: home + "/share/data", work: home + "/work", key: home + "/key", dialed: new(atomic.Int32)}
	p.abstract = "@crabmem-test-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{p.data + "/sessions", p.work + "/sub"} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{p.data + "/secret", p.data + "/sessions/log", p.key} {
		if err := os.WriteFile(f, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"link": "../share/data", "abs": p.data, "file": "../share/data/secret", "root": "/", "key": p.key, "chain": "link"} {
		if err := os.Symlink(to, p.work+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	for _, address := range []string{p.data + "/sock", p.abstract} {
		l, err := net.Listen("unix", address)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				p.dialed.Add(1)
				fmt.Fprintln(c, token)
				c.Close()
			}
		}()
		t.Cleanup(func() { l.Close(); <-done })
	}
	// Memory that others may attach, and a device outside /dev.
	shm, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.SysvShmCtl(shm, unix.IPC_RMID, nil) })
	if os.Geteuid() == 0 {
		if err := unix.Mknod(p.work+"/zero", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err != nil {
			t.Fatal(err)
		}
	}
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, p.data+"/secret", 0)
	if err != nil {
		t.Fatal(err)
	}
	p.vars = map[string]string{
		"D": p.data, "W": p.work, "H": p.home, "K": p.key, "P": strconv.Itoa(os.Getpid()), "SELF": self, "ABSTRACT": p.abstract,
		"AT":     fmt.Sprintf("%#x", uintptr(unsafe.Pointer(&memoryToken[0]))),
		"HANDLE": fmt.Sprintf("%d %x", handle.Type(), handle.Bytes()),
	}
	return p
}

// contents is all that is in a directory, but for its links.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		all[name] = fi.Mode().String()
		if fi.Mode().IsRegular() {
			b, err := os.ReadFile(name)
			all[name] += string(b)
			return err
		}
		return nil
	})
	if err != nil {
		all["error"] = err.Error()
	}
	return all
}

// attacks are commands of a confined agent. An unconfined command marked so
// succeeds: it prints the token or MADE, changes the data directory, or reaches
// a socket.
var attacks = []struct {
	command string
	control bool // it works unconfined
}{
	{"cat $D/secret", true},
	{"cat ../share/data/secret", true},
	{"cat link/secret abs/sessions/log file", true},
	{"cat chain/secret", true},
	{"cat root$D/secret", true},
	{"cd link && cat secret", true},
	{"cat $K key", true},
	{"ls $D | grep secret && echo MADE", true},
	{"find $H -name secret -exec cat {} +", true},
	{"grep -rs TOKEN $H", true},
	{"cp -r $D copy && cat copy/secret", true},
	{"tar c $D | tar xO", true},
	{"ln $D/secret h && cat h; ln $K h2 && cat h2", true},
	{"ln -s $D again && cat again/secret", true},
	{"mv $D/secret m && cat m", true},
	{"mv $D moved && cat moved/secret", true},
	{"mv ../share ../elsewhere && cat ../elsewhere/data/secret && echo MADE", true},
	{"mv ../share ../elsewhere && mkdir -p $D && echo planted >$D/config.toml && echo MADE", true},
	{"mv $D $D.old; mkdir $D && echo MADE", true},
	{"rm -rf $D; rmdir $D", true},
	{"rm -f $D/secret; unlink $D/secret", true},
	{"echo x >$D/new", true},
	{"echo x >>link/secret", true},
	{"echo x >>$K", true},
	{"truncate -s0 $D/secret file", true},
	{"mkdir $D/d; touch $D/t; ln -s / $D/l; mkfifo $D/f", true},
	{"chmod 777 $D/secret", true},
	{"chmod -R 777 $D", true},
	{"touch -d 2001-01-01 $D && test -w $D && echo MADE", true},
	{"source $D/secret 2>&1", true},
	{"cat </proc/1/root$D/secret; cat /proc/$$/root$D/secret /proc/self/root$D/secret", true},
	{"cat /proc/$P/root$D/secret", true},
	{"cat /proc/$P/cwd/secret", true},
	{"cat /proc/[0-9]*/cwd/secret /proc/[0-9]*/root$D/secret 2>/dev/null", true},
	{"find /proc/[0-9]*/fd -lname '*/secret' -exec cat {} + 2>/dev/null", true},
	{"find /proc/$P/fd /proc/$P/task/*/fd -lname '*/share/*' -exec cat {} +", true},
	{"cat /proc/*/environ | tr '\\0' '\\n' | grep -a PLANTED", false},
	{"tr '\\0' '\\n' </proc/$P/environ | grep -a ^PATH= && echo MADE", true},
	{"test -e /proc/$P/mem && test -r /proc/$P/maps && grep -q sandbox.test /proc/$P/cmdline && echo MADE", true},
	{"ls -d /proc/$P && tr '\\0' ' ' </proc/$P/cmdline | grep test && echo MADE", true},
	{"CRABMEM_ATTACK=memory $SELF $P $AT; CRABMEM_ATTACK=memory $SELF 1 $AT", true},
	{"CRABMEM_ATTACK=trace $SELF 1", false},
	{"cat /proc/1/environ /proc/1/mem /proc/1/maps /proc/1/map_files/*; ls -l /proc/1/fd /proc/1/cwd /proc/1/exe && echo MADE", false},
	{"CRABMEM_ATTACK=connect $SELF $D/sock", true},
	{"cd link && CRABMEM_ATTACK=connect $SELF sock", true},
	{"CRABMEM_ATTACK=connect $SELF $ABSTRACT", true},
	{"unshare -Ur env CRABMEM_ATTACK=connect $SELF $ABSTRACT", true},
	{"CRABMEM_ATTACK=ring $SELF", true},
	{"CRABMEM_ATTACK=handle $SELF $W $HANDLE", true},
	{"unshare -Urm env CRABMEM_ATTACK=handle $SELF $W $HANDLE", false},
	{"CRABMEM_ATTACK=devices $SELF $W $W", false},
	{"for d in /dev/vd* /dev/sd* /dev/nvme* /dev/mem /dev/kmsg /dev/fuse /dev/loop*; do test -e $d && echo MADE; done", true},
	{"umount $D; umount -l $D; umount -f $D; cat $D/secret", true},
	{"mount -o remount,rw $D; echo x >$D/new", true},
	{"mount -t tmpfs none $D && echo MADE; umount -l $D", false},
	{"mount --bind / sub && cat sub$D/secret; umount -l sub", false},
	{"unshare -Urm bash -c 'umount $D; umount -l $D; cat $D/secret'", true},
	{"unshare -Urm bash -c 'mount --bind / sub && cat sub$D/secret'; unshare -Urm bash -c 'mount --bind $H sub && cat sub/share/data/secret'", false},
	{"unshare -Urm bash -c 'mount --rbind / sub && (umount -l sub$D; umount sub$D; cat sub$D/secret)'", true},
	{"unshare -Urm bash -c 'mount --make-rprivate /; mount --move $D sub; cat $D/secret sub/secret'", true},
	{"unshare -Urm bash -c 'mount -t overlay o -olowerdir=$H/share,upperdir=$W/sub,workdir=$W/wk sub; cat sub/data/secret'", false},
	{"mkdir -p wk up; unshare -Urm bash -c 'mount -t overlay o -olowerdir=$H/share:$W/wk up && cat up/data/secret'", true},
	{"unshare -Urm bash -c 'mount -o remount,bind,rw,dev / ; mount -o remount,rw $D; echo x >$D/new'", true},
	{"unshare -Um --keep-caps env CRABMEM_ATTACK=mounts $SELF $D $H $W/sub", true},
	{"unshare -Umpf --keep-caps env CRABMEM_ATTACK=mounts $SELF $D $H $W/sub", true},
	{"unshare -U --keep-caps env CRABMEM_ATTACK=handle $SELF $W $HANDLE", false},
	{"unshare -Um --keep-caps env CRABMEM_ATTACK=handle $SELF $W $HANDLE", false},
	{"CRABMEM_ATTACK=mounts $SELF $D $H $W/sub; unshare -Um env CRABMEM_ATTACK=mounts $SELF $D $H $W/sub", false},
	{"unshare -Urmpf --mount-proc cat /proc/1/root$D/secret", true},
	{"unshare -Urm --propagation shared umount -l $D; cat $D/secret", true},
	{"unshare -Ur chroot / cat $D/secret", true},
	{"unshare -Urm bash -c 'cd /; pivot_root . $W/sub; cat $D/secret'", true},
	{"nsenter -t 1 -m -p cat $D/secret; nsenter -t $P -U -m cat $D/secret", false},
	{"nsenter -t $P -m cat $D/secret", false},
	{"setpriv --inh-caps=+all --ambient-caps=+all cat $D/secret", false},
	{"sudo -n cat $D/secret; su -c 'cat $D/secret'; pkexec cat $D/secret", false},
	{"systemd-run --user --pipe --wait cat $D/secret; dbus-send --session / a.b; tmux new-session -d \"cat $D/secret >$W/o\"; at now <<<\"cat $D/secret >$W/o\"", false},
	{"echo '|/bin/cp $D/secret $W/core' >/proc/sys/kernel/core_pattern", false},
	{"test -w /proc/sys/kernel/core_pattern && echo 1 >/proc/sys/vm/laptop_mode && echo MADE; echo 0 >/proc/sys/vm/laptop_mode", true},
	{"echo /x >/sys/kernel/uevent_helper; test -w /sys/kernel/mm && echo MADE", true},
	{"kill -STOP $P; kill -9 $P; kill -CONT $P; kill -9 -- -$P", false},
	{"kill -9 1; kill -TERM 1; kill -QUIT 1; kill -STOP 1; cat $D/secret", false},
	{"kill -9 -1; cat $D/secret", false},
	{"exec 9<$D; cat /proc/self/fd/9/secret; cat /dev/fd/9/secret", true},
	{"cat /dev/fd/*/secret /proc/self/fd/*/../secret", false},
	{"ls /dev/pts/[0-9]* && echo MADE; ls /dev/shm/* && echo MADE", false},
	{"test $(wc -l </proc/sysvipc/shm) -gt 1 && echo MADE", true},
	{"mknod node c 1 5; head -c1 node | wc -c | grep 1 && echo MADE; rm -f node; head -c1 zero | wc -c | grep 1 && echo MADE", true},
	{"debugfs -R \"cat $D/secret\" $(findmnt -no SOURCE -T $W)", false},
	{"BASH_ENV=$D/secret bash -c : 2>&1; ENV=$D/secret sh -ic : 2>&1; cat ${D}/./../data//secret", true},
	{"cat $(dirname $D)/da*/se* $(dirname $D)/[d]ata/secret", true},
}

// strike runs an attack and describes its effect, or returns "".
func strike(t *testing.T, p *prison, command string, confined bool) string {
	t.Helper()
	data, key := contents(t, p.data), contents(t, p.key)
	work := contents(t, p.work)
	dialed := p.dialed.Load()
	b := tool.NewBash(tool.BashOptions{Hidden: []string{p.data, p.key, p.home + "/missing"}, Timeout: gate.Hang})
	out, err := b.Run(t.Context(), tool.Call{Dir: p.work, Scope: tool.Scope{Confined: confined}, Arguments: args(t, "command", command, "env", p.vars)})
	if err != nil && confined {
		t.Errorf("%s: %v", command, err)
	}
	var made []string
	if strings.Contains(out, token) || strings.Contains(out, "PLANTED=") || strings.Contains(out, "MADE") {
		made = append(made, "it printed "+out)
	}
	if p.dialed.Load() != dialed {
		made = append(made, "it reached a socket")
	}
	if after := contents(t, p.data); !maps.Equal(after, data) {
		made = append(made, fmt.Sprintf("the data directory changed: %v", after))
	}
	if after := contents(t, p.key); !maps.Equal(after, key) {
		made = append(made, fmt.Sprintf("the key changed: %v", after))
	}
	for name, text := range contents(t, p.work) {
		if strings.Contains(text, token) && text != work[name] {
			made = append(made, "the token is in "+name)
		}
	}
	if testing.Verbose() && confined && made == nil {
		t.Logf("%s: %.300s", command, out)
	}
	return strings.Join(made, "; ")
}

func TestConfined(t *testing.T) {
	race.Skip(t)
	userns(t)
	t.Setenv("PLANTED", token)
	p := newPrison(t, t.TempDir())
	t.Chdir(p.data) // as the daemon might be
	open, err := os.Open(p.data + "/secret")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	inherit(t, p.data)
	n := 0
	for _, a := range attacks {
		commands := []string{a.command}
		if strings.Contains(a.command, "unshare -Ur") {
			// On a system that forbids a map for root, a namespace without a
			// map still gives capabilities.
			commands = append(commands, strings.ReplaceAll(a.command, "unshare -Ur", "unshare -U"))
		}
		for _, command := range commands {
			n++
			if made := strike(t, p, command, true); made != "" {
				t.Errorf("ESCAPE: %s: %s", command, made)
			}
		}
	}
	t.Logf("%d attacks", n)
	runtime.KeepAlive(memoryToken)
	noChildren(t)
}

// inherit opens a directory as the daemon's parent might: programs that this
// process starts inherit the descriptor.
func inherit(t *testing.T, dir string) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
}

// TestConfinedControl checks that the attacks work on unconfined commands.
func TestConfinedControl(t *testing.T) {
	race.Skip(t)
	userns(t)
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: some of the attacks take root to work unconfined")
	}
	t.Setenv("PLANTED", token)
	home := t.TempDir()
	for i, a := range attacks {
		if !a.control {
			continue
		}
		dir := filepath.Join(home, strconv.Itoa(i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			p := newPrison(t, dir)
			t.Chdir(p.data)
			open, err := os.Open(p.data + "/secret")
			if err != nil {
				t.Fatal(err)
			}
			defer open.Close()
			if made := strike(t, p, a.command, false); made == "" {
				t.Errorf("does nothing unconfined: %s", a.command)
			}
		})
	}
}

// TestConfinedHidesEveryMount checks that hidden paths are hidden at every mount
// point.
func TestConfinedHidesEveryMount(t *testing.T) {
	race.Skip(t)
	if !inOwnMounts(t) {
		return
	}
	p := newPrison(t, t.TempDir())
	if err := os.Mkdir(p.home+"/mnt", 0o700); err != nil {
		t.Fatal(err)
	}
	p.vars["M"] = p.home + "/mnt"
	for from, to := range map[string]string{p.data: "one", p.home: "all", p.data + "/sessions": "part", p.data + "/secret": "single", "/proc": "proc"} {
		at := p.home + "/mnt/" + to
		var err error
		if to == "single" {
			err = os.WriteFile(at, nil, 0o600)
		} else {
			err = os.Mkdir(at, 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
		bind(t, from, at)
	}
	for _, command := range []string{
		"cat $M/one/secret", "cat $M/all/share/data/secret", "cat $M/part/log", "cat $M/single", "cat $M/proc/$P/root$D/secret $M/proc/1/root$D/secret",
		"find $M -type f -exec cat {} +", "cat $M/all/key", "cat $M/all/mnt/one/secret $M/all/mnt/part/log", "umount -l $M/one; cat $M/one/secret",
		"echo x >$M/one/new; echo x >>$M/single", "mv $M/all/share $M/all/else && echo MADE", "mv $M/all $M/else && echo MADE",
		"unshare -Urm bash -c 'umount -l $M/one $M/part $M/single $M/proc; cat $M/one/secret $M/part/log $M/single $M/proc/$P/root$D/secret'",
		"unshare -Urm bash -c 'umount -l $M/all $M; cat $M/one/secret $M/part/log $M/single; mount --rbind $M sub; umount sub/*; cat sub/*/*'",
	} {
		if made := strike(t, p, command, true); made != "" {
			t.Errorf("ESCAPE: %s: %s", command, made)
		}
		if made := strike(t, p, "cat $M/one/secret", false); made == "" {
			t.Fatal("it is not seen by anybody else either")
		}
	}
}

// TestConfinedWorks checks that other paths work as usual.
func TestConfinedWorks(t *testing.T) {
	race.Skip(t)
	userns(t)
	p := newPrison(t, t.TempDir())
	b := tool.NewBash(tool.BashOptions{Hidden: []string{p.data, p.key}, Env: map[string]string{"CONFIGURED": "yes"}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			fmt.Fprintln(c, "hello from outside")
			c.Close()
		}
	}()
	inherit(t, p.data)
	p.vars["PORT"] = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	for _, c := range []struct {
		command string
		want    ran
	}{
		{"echo hello; echo no >&2; exit 3", ran{3, "hello\n", "no\n"}},
		{"pwd; id -u", ran{0, p.work + "\n" + strconv.Itoa(os.Geteuid()) + "\n", ""}},
		{"echo text >sub/file && cat sub/file && rm sub/file && ls -d /usr/bin", ran{0, "text\n/usr/bin\n", ""}},
		{"ls -A $D; cat", ran{0, "", ""}},
		{"echo $CONFIGURED; echo x >/dev/null; echo y >/dev/stderr; head -c3 /dev/zero | wc -c", ran{0, "yes\n3\n", "y\n"}},
		{"cat </dev/tcp/127.0.0.1/$PORT", ran{0, "hello from outside\n", ""}},
		{"kill -9 $$", ran{-1, "", ""}},
		{"kill -TERM $$", ran{-1, "", ""}},
		{"trap -p; kill -TERM 1; echo still here", ran{0, "still here\n", ""}},
		{"(sleep 0.05; exit 7) & wait $!", ran{7, "", ""}},
		{"cat <(echo piped)", ran{0, "piped\n", ""}},
		{"CRABMEM_ATTACK=ring $SELF", ran{0, "", "ring function not implemented\n"}},
		{"CRABMEM_ATTACK=connect $SELF @x", ran{0, "", "connect @x dial unix @x: socket: address family not supported by protocol\n"}},
		{"ls /proc/$$/fd; true", ran{0, "0\n1\n2\n", ""}},
		{"read -r pid _ _ _ group session _ </proc/self/stat; echo $((pid == $$)) $((group == pid)) $((session == pid))", ran{0, "1 1 1\n", ""}},
		{"printf 'a\\xffb'", ran{0, "a\uFFFDb", ""}},
	} {
		if got := runBash(t, b, tool.Call{Dir: p.work, Scope: tool.Scope{Confined: true}, Arguments: args(t, "command", c.command, "env", p.vars)}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.command, got, c.want)
		}
	}
	for dir, want := range map[string]string{
		"/nowhere":           "bash failed: working directory: lstat /nowhere: no such file or directory",
		p.data + "/sessions": "bash failed: chdir " + p.data + "/sessions: no such file or directory",
	} {
		if _, err := b.Run(t.Context(), tool.Call{Dir: dir, Scope: tool.Scope{Confined: true}, Arguments: args(t, "command", "true")}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if got := runBash(t, b, tool.Call{Dir: p.data, Scope: tool.Scope{Confined: true}, Arguments: args(t, "command", "ls -A; cat secret")}); got.Stdout != "" {
		t.Errorf("in the data directory: %+v", got)
	}
	// A name that is no UTF-8 is hidden too.
	odd := p.home + "/od\xffd"
	if err := os.Mkdir(odd, 0o700); err == nil {
		if err := os.WriteFile(odd+"/secret", []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		b := tool.NewBash(tool.BashOptions{Hidden: []string{odd, odd + "/secret"}})
		if got := runBash(t, b, tool.Call{Dir: p.work, Scope: tool.Scope{Confined: true}, Arguments: args(t, "command", "cat ../od*/secret")}); got.Stdout != "" {
			t.Errorf("%+v", got)
		}
	}
}

// TestConfinedEnds: with the time, everything ends, wherever it put itself.
func TestConfinedEnds(t *testing.T) {
	race.Skip(t)
	userns(t)
	b := tool.NewBash(tool.BashOptions{Timeout: 400 * time.Millisecond})
	mark := "4242." + strconv.Itoa(os.Getpid())
	began := time.Now()
	_, err := b.Run(t.Context(), tool.Call{Dir: "/", Scope: tool.Scope{Confined: true},
		Arguments: args(t, "command", "setsid sleep "+mark+" & setsid setsid nohup sleep "+mark+" & trap '' TERM; sleep "+mark)})
	if err == nil || err.Error() != "bash timed out after 400ms" || time.Since(began) > gate.Hang {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	b = tool.NewBash(tool.BashOptions{Timeout: gate.Hang}) // under load a command takes longer than 400ms to start
	r := runBash(t, b, tool.Call{Dir: "/", Scope: tool.Scope{Confined: true}, Arguments: args(t, "command", "setsid sleep "+mark+" & echo started")})
	if r.Stdout != "started\n" {
		t.Errorf("%+v", r)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the user hung up"))
	if _, err := b.Run(ctx, tool.Call{Dir: "/", Scope: tool.Scope{Confined: true}, Arguments: args(t, "command", "true")}); err == nil || err.Error() != "bash canceled: the user hung up" {
		t.Error(err)
	}
	if left, _ := filepath.Glob("/proc/[0-9]*/cmdline"); len(left) == 0 {
		t.Error("no process is seen")
	} else {
		for _, name := range left {
			if b, _ := os.ReadFile(name); strings.Contains(string(b), mark) {
				t.Errorf("%s still runs: %q", name, b)
			}
		}
	}
	noChildren(t)
}

// TestConfinedOrphaned: when the daemon is killed, its confined commands end.
func TestConfinedOrphaned(t *testing.T) {
	race.Skip(t)
	userns(t)
	if os.Getenv("CRABMEM_ORPHAN") != "" {
		tool.NewBash(tool.BashOptions{}).Run(context.Background(), tool.Call{Dir: "/", Scope: tool.Scope{Confined: true},
			Arguments: args(t, "command", "exec sleep "+os.Getenv("CRABMEM_ORPHAN"))})
		return
	}
	mark := "4343." + strconv.Itoa(os.Getpid())
	cmd := exec.Command(os.Args[0], "-test.run", "^TestConfinedOrphaned$")
	cmd.Env = append(os.Environ(), "CRABMEM_ORPHAN="+mark)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	running := func() bool {
		names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		return slices.ContainsFunc(names, func(n string) bool {
			b, _ := os.ReadFile(n)
			return string(b) == "sleep\x00"+mark+"\x00"
		})
	}
	gate.Until(t, "it begins", running)
	cmd.Process.Kill()
	cmd.Wait()
	gate.Until(t, "it ends with the daemon", func() bool { return !running() })
}

// TestConfinedRefused checks that a command that cannot be confined does not
// run, and that the error has the reason.
func TestConfinedRefused(t *testing.T) {
	if _, err := exec.LookPath("unshare"); err != nil {
		t.Skip("SKIPPED: no unshare")
	}
	if os.Getenv("CRABMEM_REFUSED") != "" {
		out, err := tool.NewBash(tool.BashOptions{}).Run(context.Background(), tool.Call{Dir: "/", Scope: tool.Scope{Confined: true}, Arguments: args(t, "command", "echo RAN")})
		fmt.Printf("%s\n%v\n", out, err)
		if _, ok := errors.AsType[*sandbox.Error](err); !ok {
			fmt.Println("RAN")
		}
		return
	}
	// A user namespace that permits no further ones.
	cmd := exec.Command("unshare", "-Ur", "bash", "-c", `echo 0 >/proc/sys/user/max_user_namespaces && exec "$0" -test.run '^TestConfinedRefused$'`, os.Args[0])
	cmd.Env = append(os.Environ(), "CRABMEM_REFUSED=1")
	out, err := cmd.CombinedOutput()
	if err != nil && strings.Contains(string(out), "unshare") {
		t.Skipf("SKIPPED: %s", out)
	}
	if err != nil || strings.Contains(string(out), "RAN") || !strings.Contains(string(out), "confine command") || !strings.Contains(string(out), "access = \"never\"") {
		t.Errorf("%v: %s", err, out)
	}
	// One in which the old /proc is partly covered, so that no new one can be
	// mounted, as in many containers. Other tests may have mounted it a second
	// time.
	cmd = exec.Command("unshare", "-Urm", "bash", "-c", `for at in $(findmnt -rnt proc -o TARGET); do
			test $at = /proc && at=/proc/sys
			mount -t tmpfs none $at
		done
		exec "$0" -test.run '^TestConfinedRefused$'`, os.Args[0])
	cmd.Env = append(os.Environ(), "CRABMEM_REFUSED=1")
	out, err = cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "RAN") || !strings.Contains(string(out), "mount a private /proc") {
		t.Errorf("%v: %s", err, out)
	}
}
