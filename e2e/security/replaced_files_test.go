package security_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// swaps are the changes that a task makes, before it ends and is restarted, to the places that root
// uses for it. $OUT is a directory outside, $ALLOC that of its allocation, $TASK its own. Forbidden changes fail,
// and the script continues.
var swaps = map[string]string{
	"log files are links":       `cd $ALLOC/alloc/logs; for f in t.stdout.0 t.stderr.0; do rm -f $f; ln -sf $OUT/victim $f; done; for n in 1 2 3; do ln -s $OUT/victim t.stdout.$n; ln -s $OUT/new t.stderr.$n; done`,
	"log files are hard links":  `cd $ALLOC/alloc/logs; for f in t.stdout.0 t.stderr.0 t.stdout.1; do rm -f $f; ln $OUT/victim $f; done`,
	"log files are pipes":       `cd $ALLOC/alloc/logs; for f in t.stdout.0 t.stderr.0 t.stdout.1 t.stderr.1; do rm -f $f; mkfifo $f; done`,
	"log files are directories": `cd $ALLOC/alloc/logs; for f in t.stdout.0 t.stderr.0 t.stdout.1; do rm -f $f; mkdir -m 777 $f; done`,
	"log files are its own":     `cd $ALLOC/alloc/logs; for f in t.stdout.0 t.stderr.0 t.stdout.1; do rm -f $f; echo mine > $f; done`,
	"logs is a link":            `cd $ALLOC/alloc; mv logs gone; ln -s $OUT logs`,
	"logs is a pipe":            `cd $ALLOC/alloc; mv logs gone; mkfifo logs`,
	"logs is a file":            `cd $ALLOC/alloc; mv logs gone; echo mine > logs`,
	"alloc is a link":           `cd $ALLOC; mv alloc gone; ln -s $OUT alloc`,
	"task is a link":            `cd $ALLOC; mv t gone; ln -s $OUT t`,
	"own directories are links": `cd $TASK/; for d in local tmp secrets private; do umount $d; mv $d gone$d; ln -s $OUT $d; done`,
	"within local":              `cd $NOMAD_TASK_DIR; ln -s $OUT sub; ln -s $OUT/victim f; cd $NOMAD_SECRETS_DIR; rm -f nomad_aws.jwt; ln -s $OUT/victim nomad_aws.jwt`,
	"modes":                     `chmod 000 $ALLOC/alloc/logs $ALLOC/alloc/logs/* $ALLOC/alloc $TASK/local $TASK/tmp $TASK/secrets $TASK/`,
	"owners":                    `for d in local tmp secrets private; do chown -R 65534 $TASK/$d; done; chown -R 65534 $ALLOC/alloc; chown 65534 $TASK/; chmod 777 $TASK/*`,
}

// A task replaces files that root uses with links, pipes and other files. Its next start, its end
// and its removal affect nothing outside.
func TestSwappedPlaces(t *testing.T) {
	a, data := harness.SandboxAgent(t)
	for driver, user := range map[string]string{"exec2": "", "raw_exec": "", "raw_exec as nobody": "nobody", "exec": "", "exec as games": "games"} {
		for name, script := range swaps {
			t.Run(driver+"/"+name, func(t *testing.T) {
				out := outside(t)
				before := tree(t, out)
				watch := watchTree(t, out)
				h := swapped(t, a, strings.Fields(driver)[0], user, out, script, data)
				if _, _, err := a.Client.Jobs().Deregister(h.JobID, true, nil); err != nil {
					t.Fatal(err)
				}
				harness.Within(t, 20*time.Second, "the allocation is removed", func() bool {
					if err := a.Client.System().GarbageCollect(); err != nil { // not before its evaluations have ended
						t.Fatal(err)
					}
					_, err := os.Lstat(filepath.Join(data, "client", "alloc", h.ID))
					_, err2 := os.Lstat(filepath.Join(data, "alloc", h.ID))
					return err != nil && err2 != nil
				})
				events := watch()
				if after := tree(t, out); !maps.Equal(before, after) {
					t.Errorf("outside was\n%v\nand is\n%v", before, after)
				}
				for _, event := range events {
					t.Errorf("outside: %s", event)
				}
			})
		}
	}
}

// swapped runs the script, and waits for the result of the second start.
func swapped(t *testing.T, a *cluster.Agent, driver, user, out, script, data string) *api.AllocationListStub {
	t.Helper()
	marks := filepath.Join(filepath.Dir(out), "marks")
	if err := os.Mkdir(marks, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(marks, 0o777); err != nil {
		t.Fatal(err)
	}
	in := marks
	if driver == "exec" { // with a root of its own
		in = "/alloc/data"
	}
	job := harness.OneTask("swap", "/bin/sh", "-c",
		fmt.Sprintf(`[ -e %[1]s/first ] && { echo again; echo again >&2; echo > %[1]s/second; exit 0; }
echo > %[1]s/first; OUT=%[2]s; ALLOC=$(dirname $NOMAD_ALLOC_DIR); TASK=$(dirname $NOMAD_TASK_DIR)
%[3]s
exit 1`, in, out, script))
	attempts, delay := 1, time.Millisecond
	job.TaskGroups[0].RestartPolicy.Attempts, job.TaskGroups[0].RestartPolicy.Delay = &attempts, &delay
	task := job.TaskGroups[0].Tasks[0]
	task.Driver, task.User = driver, user
	task.Identities = []*api.WorkloadIdentity{{Name: "aws", Audience: []string{"x"}, File: true}}
	if driver == "exec2" {
		task.Config["unveil"] = []string{"rwc:" + marks, "rx:/usr/sbin"}
	}
	if _, _, err := a.Client.Jobs().Register(job, nil); err != nil {
		t.Fatalf("Register() = %v", err)
	}
	var h *api.AllocationListStub
	harness.Within(t, 30*time.Second, "the task has ended", func() bool {
		allocs, _, err := a.Client.Jobs().Allocations("swap", true, nil)
		if err != nil || len(allocs) != 1 {
			return false
		}
		h = allocs[0]
		return h.ClientStatus == api.AllocClientStatusComplete || h.ClientStatus == api.AllocClientStatusFailed
	})
	if in != marks {
		dirs, err := filepath.Glob(filepath.Join(data, "*", h.ID, in))
		if err != nil || len(dirs) != 1 {
			t.Fatalf("directories of the allocation: %v, %v, want one", dirs, err)
		}
		marks = dirs[0]
	}
	if _, err := os.Stat(filepath.Join(marks, "first")); err != nil {
		for _, ev := range h.TaskStates["t"].Events {
			t.Log(ev.Type, ev.DisplayMessage)
		}
		t.Fatal("the task never ran")
	}
	_, err := os.Stat(filepath.Join(marks, "second"))
	if h.ClientStatus == api.AllocClientStatusComplete && err != nil {
		t.Error("complete, and yet there was no second start")
	}
	if err != nil { // rejected by an event, not silently
		last := ""
		for _, ev := range h.TaskStates["t"].Events {
			last += ev.Type + " " + ev.DisplayMessage + "\n"
		}
		if !strings.Contains(last, api.TaskDriverFailure) && !strings.Contains(last, api.TaskSetupFailure) && !strings.Contains(last, "Hook") {
			t.Errorf("no second start, and no event with the reason:\n%s", last)
		}
	}
	return h
}

// outside creates a directory with targets for a misled start.
func outside(t *testing.T) string {
	t.Helper()
	dir := harness.TempDir(t)
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "outside")
	for _, name := range []string{"", "logs", "data", "tmp", "local", "secrets", "private", "t"} {
		at := filepath.Join(out, name)
		if err := os.Mkdir(at, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(at, 0o777); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"victim", "t.stdout.0", "nomad_aws.jwt"} {
			harness.WriteFile(t, filepath.Join(at, file), "untouched")
			if err := os.Chmod(filepath.Join(at, file), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out
}

// tree returns mode, owner, size, time and content of each entry of a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		text := ""
		if d.Type().IsRegular() {
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(raw)
		}
		all[path] = fmt.Sprintf("%o %d:%d %d %d %q", st.Mode, st.Uid, st.Gid, st.Size, st.Mtim.Nano(), text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// watchTree records, by inotify, the files below dir that are opened or changed from now on. Links
// that a task makes to a file do not open it.
func watchTree(t *testing.T, dir string) func() []string {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	names := map[int]string{}
	for path := range tree(t, dir) {
		wd, err := unix.InotifyAddWatch(fd, path, unix.IN_OPEN|unix.IN_MODIFY|unix.IN_CREATE|unix.IN_DELETE|unix.IN_MOVE)
		if err != nil {
			t.Fatal(err)
		}
		names[wd] = path
	}
	drain := func() []string {
		var out []string
		buf := make([]byte, 64<<10)
		for {
			n, err := unix.Read(fd, buf)
			if n <= 0 || err != nil {
				return out
			}
			for at := 0; at+unix.SizeofInotifyEvent <= n; {
				wd, mask, length := le(buf[at:]), le(buf[at+4:]), le(buf[at+12:])
				out = append(out, fmt.Sprintf("%s: event %#x %s", names[wd], mask, strings.TrimRight(string(buf[at+16:at+16+length]), "\x00")))
				at += unix.SizeofInotifyEvent + length
			}
		}
	}
	drain()
	return drain
}

// le decodes a four-byte number of an inotify event.
func le(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 | int(b[3])<<24 }
