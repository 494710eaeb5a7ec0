//go:build linux

// Powercut simulates hundreds of power cuts under a store and under sessions.
//
// It records every block write and every flush of a workload on a real ext4,
// together with the workload's acknowledgements. It then builds crash states: the
// flushed writes, and none, all, or a random part of the others. It mounts and
// checks each state. The state must contain all acknowledged operations. It may
// also contain the operations in progress.
//
// The recording uses a disk image in a small FUSE file system, a loop device on
// it, and ext4 on the device. It needs root and /dev/fuse. Without them it
// prints a message and exits with 0, or 1 with -require.
//
// Controls must fail. They are the same runs without syncs of files, or without
// syncs of directories. On ext4 and xfs any fsync commits the complete journal,
// including directories. A store acknowledges no operation without an fsync of the
// log. So a store survives there without directory syncs. The replaced file
// and the dump end in a rename and do not survive. On btrfs a store in literal
// mode does not survive either.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crabmem/crmem/vfs"
	"crabmem/fuzz/internal/fault"
)

// run is one workload on one kind of disk, and its states.
type run struct {
	workload string
	mode     string // variant of the workload
	fs       string // ext4 unless the matrix sets it
	mount    string // mount options of the file system
	drop     string // syncs to skip: "", "file", or "dir"
	mustFail bool   // is a control
	only     string // the only file system for the run; "" is all
	share    int    // percentage of all states

	states int
	seed   uint64
	resume bool // the disk is a crash state
}

// workload is a program under power cuts, and its checker. Both functions get the
// directory of the mounted disk.
type workload struct {
	// write runs the operations. It passes the start and the acknowledgement of each
	// operation to mark.
	write func(r run, fsys vfs.FS, dir string, mark func([]byte) error) error
	// checker returns a checker that compares a disk with the acknowledgements.
	checker func(r run) func(dir string, marks []byte) error
	// resumes reports whether write can continue on a crash state.
	resumes bool
}

var workloads = map[string]workload{
	"plain":    plain,
	"sessions": sessions,
	"store":    store,
	"tree":     treeDumps,
}

// matrix lists the runs of the program.
var matrix = []run{
	{workload: "plain", mount: "noauto_da_alloc", share: 8},
	{workload: "plain", mount: "noauto_da_alloc", drop: "file", mustFail: true},
	{workload: "plain", mount: "noauto_da_alloc", drop: "dir", mustFail: true},
	{workload: "tree", share: 8},
	{workload: "tree", drop: "file", mustFail: true},
	{workload: "tree", drop: "dir", mustFail: true},
	{workload: "store", mode: "log", share: 21},
	{workload: "store", mode: "log", mount: "noauto_da_alloc", share: 13},
	{workload: "store", mode: "log", mount: "data=writeback", share: 13},
	{workload: "store", mode: "literal", mount: "noauto_da_alloc", share: 8},
	{workload: "store", mode: "writers", share: 13},
	{workload: "store", mode: "log", mount: "noauto_da_alloc", drop: "file", mustFail: true},
	{workload: "store", mode: "literal", drop: "dir", mustFail: true, only: "btrfs"},
	{workload: "sessions", mount: "noauto_da_alloc", share: 8},
	{workload: "sessions", mount: "data=writeback", share: 8},
	{workload: "sessions", mount: "noauto_da_alloc", drop: "file", mustFail: true},
	{workload: "sessions", mount: "noauto_da_alloc", drop: "dir", mustFail: true},
}

func (r run) String() string {
	s := r.workload
	if r.mode != "" {
		s += " " + r.mode
	}
	s += ", " + r.fs
	if r.mount != "" {
		s += " " + r.mount
	}
	if r.drop != "" {
		s += ", without " + r.drop + " syncs"
	}
	return s
}

func (r run) rng() *rand.Rand { return rand.New(rand.NewPCG(r.seed, 1)) }

// args returns the arguments for the process that runs the workload.
func (r run) args(fuse string) []string {
	return []string{"-workload", r.workload, "-mode", r.mode, "-fs", r.fs, "-mount", r.mount, "-drop", r.drop,
		"-seed", fmt.Sprint(r.seed), fmt.Sprintf("-resume=%t", r.resume), "-disk", fuse}
}

func main() {
	var r run
	states := flag.Int("states", 2400, "check this many crash states, not counting controls")
	require := flag.Bool("require", false, "exit with 1 instead of 0 if a requirement is missing")
	verbose := flag.Bool("v", false, "print the bad states of the controls")
	keep := flag.String("keep", "", "write the disk image of the first bad state to this file")
	dir := flag.String("dir", "", "internal: directory for the mount points")
	disk := flag.String("disk", "", "internal: directory of the recorder for a workload")
	flag.BoolVar(&r.resume, "resume", false, "internal: continue on a crash state")
	flag.StringVar(&r.workload, "workload", "", "run only this workload (plain, store, tree, sessions)")
	flag.StringVar(&r.mode, "mode", "", "with -workload: mode of the workload")
	flag.StringVar(&r.mount, "mount", "", "with -workload: mount options of the file system")
	flag.StringVar(&r.fs, "fs", "ext4", "file system: ext4, xfs, or btrfs; only ext4 uses the mount options of the matrix")
	flag.StringVar(&r.drop, "drop", "", "with -workload: skip these syncs (file, dir, or file+dir)")
	flag.Uint64Var(&r.seed, "seed", uint64(time.Now().UnixNano()), "seed of operations and states")
	flag.Parse()

	var err error
	switch {
	case *disk != "":
		err = work(r, *disk)
	case *dir != "":
		err = cut(r, *dir, *states, *verbose, *keep)
	default:
		if why := missing(r.fs); why != "" {
			fmt.Printf("powercut: SKIPPED, no power-cut state was checked: %s\n", why)
			if *require {
				os.Exit(1)
			}
			return
		}
		err = isolate(r.seed)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && *dir == "" && *disk == "" {
		os.Exit(1) // the child has printed the reason
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "powercut:", err)
		os.Exit(1)
	}
}

// missing returns a message about a missing requirement, or "".
func missing(name string) string {
	f, ok := filesystems[name]
	if !ok {
		return fmt.Sprintf("unknown file system %q", name)
	}
	if os.Getuid() != 0 {
		return "it needs root"
	}
	for _, dev := range []string{"/dev/fuse", "/dev/loop-control"} {
		fd, err := unix.Open(dev, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Sprintf("%s: %v", dev, err)
		}
		unix.Close(fd)
	}
	if _, err := exec.LookPath(f.mkfs[0]); err != nil {
		return err.Error()
	}
	return ""
}

// isolate runs this program as a child in a new mount namespace. When the child exits
// for any reason, the kernel removes all mounts and loop devices.
func isolate(seed uint64) error {
	// The child dies with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("powercut-%d", os.Getpid()))
	if err := (vfs.OS{}).Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer removeEmpty(dir)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append([]string{"-dir", dir, "-seed", fmt.Sprint(seed)}, os.Args[1:]...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	return cmd.Run()
}

// removeEmpty removes a directory of mount points.
func removeEmpty(dir string) {
	sub, _ := vfs.OS{}.ReadDir(dir)
	for _, e := range sub {
		vfs.OS{}.Remove(filepath.Join(dir, e.Name()))
	}
	vfs.OS{}.Remove(dir)
}

// cut records and replays the complete matrix, or only the requested run.
func cut(only run, dir string, states int, verbose bool, keep string) error {
	fmt.Printf("powercut: seed %d\n", only.seed)
	if err := (vfs.OS{}).Mkdir(filepath.Join(dir, "recorder"), 0o700); err != nil {
		return err
	}
	start := time.Now()
	runs := matrix
	if only.workload != "" {
		runs = []run{only}
		runs[0].share = 100
	}
	var sum tally
	for i, r := range runs {
		r.seed = only.seed + uint64(i)
		if r.fs = only.fs; r.fs != "ext4" && only.workload == "" {
			r.mount = ""
		}
		if r.only != "" && r.only != r.fs {
			continue
		}
		r.states = max(1, states*r.share/100)
		begun := time.Now()
		res, err := r.recordAll(dir)
		if err != nil {
			return fmt.Errorf("%s: %w", r, err)
		}
		verdict := sum.add(r, res)
		if keep != "" && res.image != nil && !r.mustFail {
			err := vfs.Replace(vfs.OS{}, keep, 0o600, func(w io.Writer) error { _, err := w.Write(res.image); return err })
			if err != nil {
				return err
			}
			fmt.Printf("powercut: wrote the disk of the first bad state, before the mount, to %s\n", keep)
			keep = ""
		}
		if r.mustFail && !verbose {
			res.bad = nil
		}
		fmt.Printf("powercut: %-17s %s: %v (%.1fs)\n", verdict, r, res, time.Since(begun).Seconds())
	}
	fmt.Printf("power-cut states checked: %d, after a second cut: %d, bad: %d, controls that failed as required: %d of %d, %.0fs\n",
		sum.checked, sum.second, sum.bad, sum.failing, sum.controls, time.Since(start).Seconds())
	if sum.bad == 0 && sum.checked < states*8/10 {
		sum.complain("checked only %d of %d states", sum.checked, states)
	}
	if len(sum.complaints) > 0 {
		return errors.New(strings.Join(sum.complaints, "; "))
	}
	return nil
}

// recordAll records and replays a run. If the workload can resume, recordAll also
// repeats the run on a few crash states. These runs simulate a second power cut,
// during the recovery or later.
func (r run) recordAll(dir string) (result, error) {
	base, err := mkfs(r.fs)
	if err != nil {
		return result{}, err
	}
	resumed := 0 // number of crash states for a second power cut
	if workloads[r.workload].resumes && !r.mustFail {
		resumed = 4
		r.states /= 2
	}
	sum, err := r.recordOne(startState{image: base}, dir, resumed)
	for _, start := range sum.next {
		if err != nil || sum.nbad > 0 {
			break // a run cannot continue on a bad state
		}
		next := r
		next.resume = true
		next.states = r.states / resumed
		var res result
		res, err = next.recordOne(start, dir, 0)
		sum.events += res.events
		sum.states += res.states
		sum.second += res.states
		sum.nbad += res.nbad
		sum.bad = append(sum.bad, res.bad...) // at most one recording is bad
		if sum.image == nil {
			sum.image = res.image
		}
	}
	return sum, err
}

// recordOne makes one recording and checks the crash states of that recording.
// It returns up to keep of the states in next.
func (r run) recordOne(from startState, dir string, keep int) (result, error) {
	events, err := recordRun(r, from.image, filepath.Join(dir, "recorder"))
	if err != nil {
		return result{}, err
	}
	return replay(r, from, events, dir, keep)
}

// tally sums the results of the runs.
type tally struct {
	checked, second, bad int
	controls, failing    int
	complaints           []string
}

func (t *tally) complain(format string, args ...any) {
	t.complaints = append(t.complaints, fmt.Sprintf(format, args...))
}

// add adds the result of a run and returns a short verdict.
func (t *tally) add(r run, res result) string {
	if r.mustFail {
		t.controls++
		if res.nbad == 0 {
			t.complain("powercut detects no lost writes: the control did not fail: %s", r)
			return "NOT DETECTED"
		}
		t.failing++
		return "fails as required"
	}
	t.checked += res.states
	t.second += res.second
	t.bad += res.nbad
	if res.nbad > 0 {
		t.complain("%s: %d bad states of %d", r, res.nbad, res.states)
		return "BAD"
	}
	return "ok"
}

// work is the writing process. It mounts the recorded disk, runs the workload on
// it, and unmounts it.
func work(r run, fuse string) error {
	w, ok := workloads[r.workload]
	if !ok {
		return fmt.Errorf("unknown workload %q", r.workload)
	}
	mnt := filepath.Join(filepath.Dir(fuse), "live")
	if err := (vfs.OS{}).Mkdir(mnt, 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	fd, err := unix.Open(filepath.Join(fuse, "disk"), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the recorded disk: %w", err)
	}
	err = r.mountImage(fd, mnt)
	unix.Close(fd)
	if err != nil {
		return err
	}
	mark, err := unix.Open(filepath.Join(fuse, "mark"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the mark file: %w", err)
	}
	defer unix.Close(mark)
	var fsys vfs.FS = vfs.OS{}
	if r.drop != "" {
		kinds := strings.Split(r.drop, "+")
		files := slices.Contains(kinds, "file")
		fsys = fault.Lossy{FS: fsys, Unsynced: fault.Unsynced{Files: files, Dirs: slices.Contains(kinds, "dir"), Replaced: files}}
	}
	err = w.write(r, fsys, mnt, func(b []byte) error {
		_, err := unix.Write(mark, b)
		return err
	})
	if uerr := unmount(mnt); err == nil {
		err = uerr
	}
	return err
}
