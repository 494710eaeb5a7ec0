//go:build linux

// Powercut cuts the power under a store, hundreds of times.
//
// It records every block write and every flush that a workload causes on a
// real ext4, together with what the workload was promised, and then rebuilds
// the disk as it may look after a power cut: what was flushed, and none, all
// or a random part of what was not. Each such disk is mounted and judged:
// what was acknowledged must be there, and at most what was under way
// besides.
//
// A disk image in a small FUSE file system, a loop device on it and ext4 on
// that do the recording, so it needs root and /dev/fuse; without them it says
// so and exits 0, or 1 with -require.
//
// The rig proves itself by controls that must fail: the same with the syncs
// of files left out, and with the syncs of directories left out.
package main

import (
	"errors"
	"flag"
	"fmt"
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
)

// run is one recording and the states made of it.
type run struct {
	workload string
	mount    string // options of ext4
	drop     string // syncs to leave out: "", "file" or "dir"
	mode     string // of the workload
	size     int    // bytes of the disk
	states   int
	seed     uint64
	mustFail bool // a control
}

// workload is something to cut the power under. Both functions get the
// directory of the mounted disk.
type workload struct {
	// write does the work and tells mark what it begins and what it was
	// promised.
	write func(r run, fsys vfs.FS, dir string, mark func([]byte) error) error
	// judge returns what tells whether a disk keeps the promises made.
	judge func(r run) func(dir string, marks []byte) error
}

var workloads = map[string]workload{
	"plain": plain,
	"store": store,
}

// matrix is what a run of the program does: share is the part of the states
// it takes, in percent.
var matrix = []struct {
	run
	share int
}{
	{run{workload: "plain", mount: "noauto_da_alloc"}, 10},
	{run{workload: "plain", mount: "noauto_da_alloc", drop: "file", mustFail: true}, 0},
	{run{workload: "plain", mount: "noauto_da_alloc", drop: "dir", mustFail: true}, 0},
	{run{workload: "store", mode: "log"}, 25},
	{run{workload: "store", mode: "log", mount: "noauto_da_alloc"}, 20},
	{run{workload: "store", mode: "log", mount: "data=writeback"}, 20},
	{run{workload: "store", mode: "literal", mount: "noauto_da_alloc"}, 15},
	{run{workload: "store", mode: "writers"}, 20},
	{run{workload: "store", mode: "log", mount: "noauto_da_alloc", drop: "file", mustFail: true}, 0},
}

// controlStates are enough for a control: it fails in a quarter of them.
const controlStates = 40

func (r run) String() string {
	s := r.workload
	if r.mode != "" {
		s += " " + r.mode
	}
	s += ", ext4"
	if r.mount != "" {
		s += " " + r.mount
	}
	if r.drop != "" {
		s += ", without " + r.drop + " syncs"
	}
	return s
}

func (r run) rng() *rand.Rand { return rand.New(rand.NewPCG(r.seed, 1)) }

// args are the arguments of the process that runs the workload.
func (r run) args(fuse string) []string {
	return []string{"-workload", r.workload, "-mode", r.mode, "-mount", r.mount, "-drop", r.drop, "-seed", fmt.Sprint(r.seed), "-disk", fuse}
}

func main() {
	var r run
	states := flag.Int("states", 600, "crash states to check, the controls aside")
	require := flag.Bool("require", false, "exit 1, not 0, when the rig cannot run here")
	verbose := flag.Bool("v", false, "say what the controls saw")
	dir := flag.String("dir", "", "internal: directory of the mounts")
	disk := flag.String("disk", "", "internal: the recorder to run a workload on")
	flag.StringVar(&r.workload, "workload", "", "run only this workload (plain, store)")
	flag.StringVar(&r.mode, "mode", "", "with -workload: its mode")
	flag.StringVar(&r.mount, "mount", "", "with -workload: options of ext4")
	flag.StringVar(&r.drop, "drop", "", "with -workload: leave out syncs (file, dir)")
	flag.Uint64Var(&r.seed, "seed", uint64(time.Now().UnixNano()), "seed of operations and states")
	flag.Parse()

	var err error
	switch {
	case *disk != "":
		err = work(r, *disk)
	case *dir != "":
		err = cut(r, *dir, *states, *verbose)
	default:
		if why := missing(); why != "" {
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
		os.Exit(1) // the child has said why
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "powercut:", err)
		os.Exit(1)
	}
}

// missing says what the rig lacks.
func missing() string {
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
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		return err.Error()
	}
	return ""
}

// isolate runs this program again among mounts of its own, so that all of
// them, and their loop devices, go away with it however it ends.
func isolate(seed uint64) error {
	// The child dies with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("powercut-%d", os.Getpid()))
	if err := (vfs.OS{}).Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer removeEmpty(dir)
	signal.Ignore(syscall.SIGINT) // the child gets it too, and ends us
	cmd := exec.Command("/proc/self/exe", append([]string{"-dir", dir, "-seed", fmt.Sprint(seed)}, os.Args[1:]...)...)
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

// cut records and replays the whole matrix, or the one run that was asked for.
func cut(only run, dir string, states int, verbose bool) error {
	fmt.Printf("powercut: seed %d\n", only.seed)
	rec := filepath.Join(dir, "recorder")
	if err := (vfs.OS{}).Mkdir(rec, 0o700); err != nil {
		return err
	}
	start := time.Now()
	checked, bad, controls := 0, 0, 0
	var failed []string
	for i, m := range matrix {
		r := m.run
		r.states = max(1, states*m.share/100)
		if r.mustFail {
			r.states = controlStates
		}
		if only.workload != "" {
			if i > 0 {
				break
			}
			r = only
			r.states = states
		}
		r.size, r.seed = 32<<20, only.seed+uint64(i)
		begun := time.Now()
		base, events, err := record(r, rec)
		if err != nil {
			return fmt.Errorf("%s: %w", r, err)
		}
		res, err := replay(r, base, events, dir)
		if err != nil {
			return fmt.Errorf("%s: %w", r, err)
		}
		verdict := "ok"
		if r.mustFail {
			controls++
			if res.nbad == 0 {
				failed = append(failed, fmt.Sprintf("control that did not fail: %s", r))
				verdict = "BLIND"
			} else {
				verdict = "fails, as it must"
			}
			if !verbose {
				res.bad = nil
			}
		} else {
			checked += res.states
			bad += res.nbad
			if res.nbad > 0 {
				failed = append(failed, fmt.Sprintf("%s: %d bad states of %d", r, res.nbad, res.states))
				verdict = "BAD"
			}
		}
		fmt.Printf("powercut: %-18s %s: %v (%.1fs)\n", verdict, r, res, time.Since(begun).Seconds())
	}
	fmt.Printf("power-cut states checked: %d, bad: %d, controls: %d, %.0fs\n", checked, bad, controls, time.Since(start).Seconds())
	if len(failed) > 0 {
		return fmt.Errorf("%s", strings.Join(failed, "; "))
	}
	return nil
}

// work is the process that writes: it mounts the recorded disk, runs the
// workload on it and unmounts.
func work(r run, fuse string) error {
	w, ok := workloads[r.workload]
	if !ok {
		return fmt.Errorf("no workload %q", r.workload)
	}
	mnt := filepath.Join(filepath.Dir(fuse), "live")
	if err := (vfs.OS{}).Mkdir(mnt, 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	fd, err := unix.Open(filepath.Join(fuse, "disk"), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("the recorded disk: %w", err)
	}
	err = mountImage(fd, mnt, r.mount)
	unix.Close(fd)
	if err != nil {
		return err
	}
	mark, err := unix.Open(filepath.Join(fuse, "mark"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("the mark file: %w", err)
	}
	defer unix.Close(mark)
	var fsys vfs.FS = vfs.OS{}
	if r.drop != "" {
		kinds := strings.Split(r.drop, "+")
		fsys = lossy{FS: fsys, file: slices.Contains(kinds, "file"), dir: slices.Contains(kinds, "dir")}
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
