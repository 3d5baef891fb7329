package killed_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// scene runs do in a subtest. Afterwards, what exists must be what existed before.
func (f *fleet) scene(name string, do func()) bool {
	outer := f.t
	return outer.Run(name, func(t *testing.T) {
		f.t = t
		defer func() { f.t = outer }()
		before := f.inventory()
		f.forgetNeighbours()
		for _, n := range f.nodes {
			n.kills = 0
		}
		do()
		f.nothingLeft(before)
		f.bystandersLive()
	})
}

// forgetNeighbours removes the hardware addresses that the machine has stored for addresses of the bridges. The nodes
// share a machine, and with it the plugin's note of the last address: so addresses are used again at once.
func (f *fleet) forgetNeighbours() {
	f.t.Helper()
	for _, n := range f.nodes {
		if out, err := exec.Command("ip", "neigh", "flush", "dev", n.bridge).CombinedOutput(); err != nil {
			f.t.Fatalf("ip neigh flush: %v, %s", err, out)
		}
	}
}

// inventory lists by name what allocations leave on the machine and at the server.
func (f *fleet) inventory() []string {
	f.t.Helper()
	return slices.Concat(f.slow(), f.processes(), f.mounts(), f.groups(), f.rules(), f.links())
}

// slow lists what is removed last as a rule. It needs no program, so it is polled.
func (f *fleet) slow() []string { return slices.Concat(f.files(), f.records()) }

// nothingLeft purges all jobs except the bystanders, and waits until the inventory is as it was before.
func (f *fleet) nothingLeft(before []string) {
	f.t.Helper()
	f.purge()
	var more, fewer []string
	met := false
	defer func() {
		if !met {
			f.t.Errorf("what remains:\n\t%s\nwhat is missing:\n\t%s", strings.Join(more, "\n\t"), strings.Join(fewer, "\n\t"))
		}
	}()
	testpace.Within(f.t, remainsLimit, "nothing is left", func() bool {
		if err := f.server.Client.System().GarbageCollect(); err != nil {
			return false
		}
		if more = without(f.slow(), before); len(more) > 0 {
			return false
		}
		now := f.inventory()
		more, fewer = without(now, before), without(before, now)
		met = len(more)+len(fewer) == 0
		return met
	})
}

// remainsLimit bounds the removal of what a purged job leaves.
const remainsLimit = patience

// without returns the lines of a that b does not have as often.
func without(a, b []string) []string {
	count := map[string]int{}
	for _, line := range b {
		count[line]++
	}
	var out []string
	for _, line := range a {
		if count[line]--; count[line] < 0 {
			out = append(out, line)
		}
	}
	return out
}

// purge purges all jobs except the bystanders.
func (f *fleet) purge() {
	f.t.Helper()
	testpace.Succeeds(f.t, "the jobs are purged", func() error {
		jobs, _, err := f.server.Client.Jobs().List(nil)
		errs := []error{err}
		for _, j := range jobs {
			if !strings.HasPrefix(j.ID, "bystander-") {
				_, _, err := f.server.Client.Jobs().Deregister(j.ID, true, nil)
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	})
}

// bystandersLive checks that the bystanders have never ended.
func (f *fleet) bystandersLive() {
	f.t.Helper()
	for _, n := range f.nodes {
		al := f.allocOf("bystander-"+n.name, "running", "")
		if al.ID != n.bystander.ID || al.NetworkStatus.Address != n.bystander.NetworkStatus.Address || al.TaskStates["t"].Restarts != 0 {
			f.t.Errorf("the bystander of %s is now %s at %+v, %d restarts", n.name, al.ID, al.NetworkStatus, al.TaskStates["t"].Restarts)
		}
		for _, label := range []string{"web", "any"} {
			if pid := n.answer(al, label); pid != n.pid {
				f.t.Errorf("the bystander of %s is process %s, was %s", n.name, pid, n.pid)
			}
		}
	}
}

// processes lists the processes of the fleet, except agents and supervisors.
func (f *fleet) processes() []string {
	var agents []string
	for _, a := range append([]*cluster.Agent{f.server}, agentsOf(f.nodes)...) {
		agents = append(agents, fmt.Sprint(a.Pid()))
	}
	var out []string
	for _, pid := range allProcesses() {
		args := strings.Join(commandOf(pid), " ")
		group, _ := os.ReadFile(filepath.Join("/proc", pid, "cgroup")) // the process may have ended
		ours := strings.Contains(string(group), "/"+f.slice+"/") || strings.Contains(args, f.dir+"/")
		if ours && args != "" && !slices.Contains(agents, pid) && !strings.HasPrefix(args, "nomad-supervise ") {
			out = append(out, fmt.Sprintf("process %s: %s", pid, args))
		}
	}
	return out
}

func agentsOf(nodes []*node) []*cluster.Agent {
	var out []*cluster.Agent
	for _, n := range nodes {
		out = append(out, n.Agent)
	}
	return out
}

// mounts lists the mounts below the fleet's directory, in the namespace of the tests and of each supervisor.
func (f *fleet) mounts() []string {
	pids := map[string]string{"self": "the node"}
	for _, n := range f.nodes {
		pids[fmt.Sprint(n.Pid())] = "the agent of " + n.name
		pids[fmt.Sprint(n.supervisor())] = "the supervisor of " + n.name
	}
	var out []string
	for pid, name := range pids {
		text, _ := os.ReadFile(filepath.Join("/proc", pid, "mountinfo")) // a supervisor may have ended
		for line := range strings.Lines(string(text)) {
			if at := strings.Fields(line)[4]; strings.HasPrefix(at, f.dir+"/") {
				out = append(out, fmt.Sprintf("mount of %s: %s", name, at))
			}
		}
	}
	return out
}

// groups lists the control groups of the fleet.
func (f *fleet) groups() []string {
	f.t.Helper()
	roots, err := cluster.Groups(f.slice, "")
	if err != nil {
		f.t.Fatal(err)
	}
	var out []string
	for _, root := range roots {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error { // a group may end meanwhile
			if err == nil && d.IsDir() {
				out = append(out, "control group: "+path)
			}
			return nil
		})
	}
	return out
}

// counters are the parts of rules that change with each packet.
var counters = regexp.MustCompile(` ?\[\d+:\d+\]| counter packets \d+ bytes \d+`)

// rules lists the rules, chains and sets of iptables and of nftables.
func (f *fleet) rules() []string {
	f.t.Helper()
	var out []string
	list := func(kind, section string, cmd *exec.Cmd) {
		text, err := cmd.Output()
		if err != nil {
			f.t.Fatalf("%s: %v", cmd, err)
		}
		at := ""
		for line := range strings.Lines(counters.ReplaceAllString(string(text), "")) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, section) {
				at = line
			}
			// The elements of a set are a list, with its sign before and after them.
			line = strings.Trim(strings.TrimPrefix(line, "elements ="), " {},")
			if line != "" && !strings.HasPrefix(line, "#") {
				out = append(out, fmt.Sprintf("%s %s %s", kind, at, line))
			}
		}
	}
	list("rule of iptables", "*", exec.Command("iptables-save"))
	list("rule of ip6tables", "*", exec.Command("ip6tables-save"))
	tables, err := exec.Command("nft", "list", "tables").Output()
	if err != nil {
		f.t.Fatal(err)
	}
	for table := range strings.Lines(string(tables)) {
		if strings.Contains(table, "open_nomad") {
			list("rule of nftables, "+strings.TrimSpace(table)+":", "set",
				exec.Command("nft", append([]string{"list"}, strings.Fields(table)...)...))
		}
	}
	return out
}

// links lists the network interfaces of the node.
func (f *fleet) links() []string {
	f.t.Helper()
	text, err := exec.Command("ip", "-o", "link").Output()
	if err != nil {
		f.t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(strings.Fields(line)[1], "@")
		out = append(out, "interface: "+strings.TrimSuffix(name, ":"))
	}
	return out
}

// files lists the files that exist for an allocation or a volume: addresses, namespaces, records of networks
// and tasks, directories, received data.
func (f *fleet) files() []string {
	f.t.Helper()
	kinds := [][2]string{{"address", "/run/cni/*/*"}, {"network namespace", "/run/netns/*"}}
	for _, n := range f.nodes {
		for kind, pattern := range map[string]string{
			"network namespace":          "client/netns/*",
			"record of a network":        "client/network/*.json",
			"result of a plugin":         "client/network/results/*",
			"record of a task":           "client/supervise/tasks/*",
			"CSI volume of a task":       "client/csi/mounted/*/*",
			"published CSI volume":       "client/csi/*/*/per-alloc/*/*",
			"staged CSI volume":          "client/csi/*/*/staging/*/*",
			"directory of an allocation": "alloc/*",
			"received data":              "alloc/*/.migrate",
		} {
			kinds = append(kinds, [2]string{kind, filepath.Join(n.data, pattern)})
		}
		kinds = append(kinds, [2]string{"directory of a volume", filepath.Join(n.volumes, "*")})
	}
	var out []string
	for _, k := range kinds {
		found, err := filepath.Glob(k[1])
		if err != nil {
			f.t.Fatal(err)
		}
		for _, name := range found {
			if base := filepath.Base(name); base != "lock" && !strings.HasPrefix(base, "last_reserved_ip") {
				out = append(out, k[0]+": "+name)
			}
		}
	}
	return out
}

// records lists what the servers have: allocations, service registrations, volumes and claims.
func (f *fleet) records() []string {
	var out []string
	c := f.server.Client
	allocs, _, err := c.Allocations().List(nil)
	for _, al := range allocs {
		out = append(out, fmt.Sprintf("allocation %s of %s", al.ID, al.JobID))
	}
	services, _, err2 := c.Services().List(nil)
	errs := []error{err, err2}
	for _, ns := range services {
		for _, s := range ns.Services {
			rows, _, err := c.Services().Get(s.ServiceName, nil)
			errs = append(errs, err)
			for _, r := range rows {
				out = append(out, fmt.Sprintf("registration of service %s: %s", r.ServiceName, r.ID))
			}
		}
	}
	volumes, _, err := c.HostVolumes().List(&api.HostVolumeListRequest{}, nil)
	for _, v := range volumes {
		out = append(out, fmt.Sprintf("volume %s: %s", v.Name, v.ID))
	}
	claims, _, err2 := c.TaskGroupHostVolumeClaims().List(&api.TaskGroupHostVolumeClaimsListRequest{}, nil)
	for _, cl := range claims {
		out = append(out, fmt.Sprintf("claim of %s on volume %s: %s", cl.JobID, cl.VolumeName, cl.ID))
	}
	csi, _, err3 := c.CSIVolumes().List(nil)
	for _, v := range csi {
		out = append(out, fmt.Sprintf("CSI volume %s", v.ID))
		full, _, err := c.CSIVolumes().Info(v.ID, nil)
		if errs = append(errs, err); err != nil {
			continue
		}
		for _, claims := range []map[string]*api.Allocation{full.ReadAllocs, full.WriteAllocs} {
			for alloc := range claims {
				out = append(out, fmt.Sprintf("claim of allocation %s on CSI volume %s", alloc, v.ID))
			}
		}
	}
	if err := errors.Join(append(errs, err, err2, err3)...); err != nil && !errors.Is(err, context.Canceled) {
		out = append(out, "unknown records: "+err.Error())
	}
	return out
}
