package duties_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// fleet is a server and two nodes that have all drivers, and two devices each.
type fleet struct {
	*harness.Fleet
	t     *testing.T // of the running row
	owner *testing.T // of the fleet: agents end with it
	places
	plugins  string
	subjects []subject
	first    *cluster.Agent
	second   *cluster.Agent
	allocs   map[string]string // ID of the last allocation, by job
	purged   bool              // at the end
	access   string            // to the volume, in the running row
}

// usersOfNode is the number of dynamic users of a node. Users that are not returned would be missing in later rows.
const usersOfNode = 4

// firstUser is the first of them. No test of another package that runs at the same time may have the same: a user with a
// process is not free.
const firstUser = 85_500

func newFleet(t *testing.T) *fleet {
	t.Helper()
	harness.NeedsSandbox(t)
	f := &fleet{Fleet: harness.NewFleet(t, harness.QuickHeartbeats), t: t, owner: t, subjects: usable(t), allocs: map[string]string{}}
	f.Lean = false // Java and QEMU are subjects
	harness.Passable(t, f.Dir)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		files := map[string][]byte{"/disk": testtask.GuestDisk(), "/" + testtask.JavaClass + ".class": testtask.JavaProgram()}
		w.Write(files[r.URL.Path]) //nolint:errcheck // the client reports a short body
	}))
	t.Cleanup(s.Close)
	f.url, f.plugins = s.URL, filepath.Join(f.Dir, "plugins")
	harness.BuildPlugin(t, f.plugins, "../exampledevice", "exampledevice")
	devices := f.deviceNodes()
	f.buildStorage()
	t.Cleanup(func() {
		for _, name := range []string{"first", "second"} {
			if err := cluster.RemoveGroups(f.slice(name), harness.Patience); err != nil {
				t.Error(err)
			}
			harness.UnshareCSI(t, f.dir(name))
		}
	})
	join := func(name string, n int) *cluster.Agent {
		return f.Join(name, fmt.Sprintf(`plugin_dir = %q
client {
  network_interface = "lo"
  cgroup_parent     = %q
  users {
    dynamic_user_min = %d
    dynamic_user_max = %d
  }
}
plugin "qemu" {}
plugin "exampledevice" {
  config {
    nodes = [%q, %q]
  }
}
`, f.plugins, f.slice(name), firstUser+n*usersOfNode, firstUser+(n+1)*usersOfNode-1, devices[0], devices[1]))
	}
	f.first, f.second = join("first", 0), join("second", 1)
	f.purgeAtEnd()
	for _, a := range []*cluster.Agent{f.first, f.second} {
		f.ready(a)
	}
	return f
}

// deviceNodes creates device nodes like /dev/zero.
func (f *fleet) deviceNodes() (paths []string) {
	f.t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "duties-")
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { harness.RemoveAll(f.t, dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		f.t.Fatal(err)
	}
	for n := range deviceCount {
		path := filepath.Join(dir, fmt.Sprint(n))
		if err := unix.Mknod(path, unix.S_IFCHR, int(unix.Mkdev(1, 5))); err != nil {
			f.t.Skip("needs the capability MKNOD: ", err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			f.t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// slice returns the cgroup_parent of a node.
func (f *fleet) slice(node string) string {
	return filepath.Base(filepath.Dir(f.Dir)) + filepath.Base(f.Dir) + node + ".slice"
}

// dir returns the directory of a node's agent.
func (f *fleet) dir(node string) string { return filepath.Join(f.Dir, node) }

// ready waits until a node has its drivers and devices.
func (f *fleet) ready(a *cluster.Agent) {
	f.t.Helper()
	id := harness.NodeID(f.t, a)
	harness.Within(f.t, harness.Patience, "the node has its drivers and devices", func() bool {
		node, _, err := f.Server.Client.Nodes().Info(id, nil)
		if err != nil || node.Status != "ready" || node.NodeResources == nil || len(node.NodeResources.Devices) != 1 {
			return false
		}
		for _, s := range f.subjects {
			if d := node.Drivers[s.driver]; d == nil || !d.Healthy {
				return false
			}
		}
		return len(node.NodeResources.Devices[0].Instances) == deviceCount
	})
}

// each runs a check for each subject.
func (f *fleet) each(check func(s subject)) {
	f.t.Helper()
	outer := f.t
	defer func() { f.t, f.T = outer, outer }()
	for _, s := range f.subjects {
		outer.Run(s.name, func(t *testing.T) {
			f.t, f.T = t, t
			check(s)
		})
	}
	if outer.Failed() {
		outer.FailNow()
	}
}

// run registers the jobs of all subjects, and waits until their tasks run on the first node.
func (f *fleet) run(head string) {
	f.t.Helper()
	f.beginStorage()
	for _, s := range f.subjects {
		harness.Run(f.t, f.Server, job{subject: s, head: head, version: "1", access: f.access}.text(f.places))
	}
	for _, s := range f.subjects {
		al := harness.Await(f.t, f.Server, s.name, "running", 1)[0]
		if al.NodeName != "first" {
			f.t.Fatalf("%s runs on %s", s.name, al.NodeName)
		}
		f.allocs[s.name] = al.ID
		f.begins(s, al, 1)
	}
}

// begins waits until the task of an allocation has started n times.
func (f *fleet) begins(s subject, al *api.AllocationListStub, n int) {
	f.t.Helper()
	text := ""
	defer func() {
		if f.t.Failed() {
			f.t.Logf("output of %s: %q", s.name, text)
		}
	}()
	harness.Within(f.t, harness.Patience, fmt.Sprintf("%s starts %d times", s.name, n), func() bool {
		text = harness.Log(f.Server, al)
		return strings.Count(text, s.begun) == n
	})
}

// continues checks that the task of a subject is the one of run, and works.
func (f *fleet) continues(s subject) {
	f.t.Helper()
	al := harness.Await(f.t, f.Server, s.name, "running", 1)[0]
	if state := al.TaskStates["t"]; al.ID != f.allocs[s.name] || state.Restarts != 0 || state.State != "running" {
		f.t.Errorf("allocation %s, %+v, want %s without restarts", al.ID, state, f.allocs[s.name])
	}
	f.works(s, al, 1)
}

// works checks that the task of an allocation runs, and has started n times.
func (f *fleet) works(s subject, al *api.AllocationListStub, n int) {
	f.t.Helper()
	if s.shell {
		testpace.Succeeds(f.t, "a session in "+s.name, func() error { return f.session(al) })
	} else if f.processes(al) == 0 {
		f.t.Errorf("%s has no process", s.name)
	}
	f.begins(s, al, n)
}

func (f *fleet) session(al *api.AllocationListStub) error {
	ctx, cancel := context.WithTimeout(f.t.Context(), harness.Patience)
	defer cancel()
	var out bytes.Buffer
	code, err := f.Server.Client.Allocations().Exec(ctx, &api.Allocation{ID: al.ID}, "t", false, []string{"sh", "-c", "cat; exit 6"},
		strings.NewReader("sent"), &out, &out, nil, nil)
	if err == nil && (code != 6 || out.String() != "sent") {
		err = fmt.Errorf("exit %d, output %q", code, &out)
	}
	return err
}

// processes counts the processes of the task of an allocation.
func (f *fleet) processes(al *api.AllocationListStub) (n int) {
	f.t.Helper()
	for _, group := range harness.ProcessesIn(f.t, f.slice(al.NodeName)) {
		if strings.Contains(group, al.ID) {
			n++
		}
	}
	return n
}

// moved waits until a subject runs on the second node, as another allocation, and works.
func (f *fleet) moved(s subject) *api.AllocationListStub {
	f.t.Helper()
	var next *api.AllocationListStub
	harness.Within(f.t, harness.Patience, s.name+" runs on the second node", func() bool {
		for _, al := range harness.Allocs(f.t, f.Server, s.name, "running") {
			if al.NodeName == "second" {
				next = al
			}
		}
		return next != nil
	})
	f.works(s, next, 1)
	return next
}

// signal sends a signal to the agent of the first node.
func (f *fleet) signal(sig syscall.Signal) {
	f.t.Helper()
	if err := syscall.Kill(f.first.Pid(), sig); err != nil {
		f.t.Fatal(err)
	}
}

// restartAgent kills the agent of the first node and starts the next one.
func (f *fleet) restartAgent() {
	f.t.Helper()
	if err := f.first.Kill(); err != nil {
		f.t.Fatal(err)
	}
	f.first = f.start(f.first)
}

// start starts an agent again, until the end of the test of the fleet.
func (f *fleet) start(a *cluster.Agent) *cluster.Agent {
	f.t.Helper()
	a = harness.Restart(f.owner, a)
	f.purgeAtEnd()
	return a
}

// purgeAtEnd purges all jobs at the end, before any agent ends.
func (f *fleet) purgeAtEnd() {
	f.owner.Cleanup(func() {
		if !f.purged {
			harness.PurgeAll(f.owner, f.Server)
		}
		f.purged = true
	})
}

// killSupervisor kills the supervisor of the first node.
func (f *fleet) killSupervisor() {
	f.t.Helper()
	pid := harness.Supervisor(f.t, f.dir("first"))
	if pid == 0 {
		f.t.Fatal("the first node has no supervisor")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		f.t.Fatal(err)
	}
	harness.Within(f.t, harness.Patience, "the supervisor ends", func() bool { return harness.Supervisor(f.t, f.dir("first")) != pid })
}

// collect stops all jobs, collects their allocations, and checks that nothing of them is left.
func (f *fleet) collect() {
	f.t.Helper()
	for _, s := range f.subjects {
		harness.Stop(f.t, f.Server, s.name)
	}
	for _, s := range f.subjects {
		harness.Within(f.t, harness.Patience, s.name+" ends", func() bool {
			al, _, err := f.Server.Client.Allocations().Info(f.allocs[s.name], nil)
			return err == nil && al.ClientTerminalStatus()
		})
	}
	f.endStorage()
	for _, node := range []string{"first", "second"} {
		harness.LeavesNothing(f.t, f.Server, f.dir(node), f.slice(node))
	}
	f.Purge()
}
