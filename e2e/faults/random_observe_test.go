//go:build linux && faults

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/faults"
)

// A view is what the servers and the machines have at a time.
type view struct {
	jobs        map[string]*api.Job
	allocs      []*api.Allocation
	evals       []*api.Evaluation
	deployments map[string]*api.Deployment // the latest of each job
	services    []*api.ServiceRegistration
	claims      []*api.TaskGroupHostVolumeClaim
	volumes     map[string]*api.HostVolumeStub
	nodes       map[string]*api.NodeListStub
	machines    map[string]*machineView // by node ID, of those whose agent runs
}

// A machineView is what a machine has. The maps have the IDs of allocations, with the number of things of each.
type machineView struct {
	processes map[string][]int // by allocation and task
	revision  map[string]int   // of the processes, by allocation and task
	dirs      map[string]int
	volumes   []string                  // the directories of volumes
	kept      map[string]map[string]int // what only running allocations have, by kind of thing
	links     int                       // interfaces to allocations
	lineage   map[string]string         // the data that moves, by allocation
	starts    map[string]string         // the data of volumes, by volume
	doubled   []string                  // tasks that found their own lock taken
}

// observe returns what the servers and the running machines have.
func observe(ctx context.Context, c *faults.Cluster) (*view, error) {
	v := &view{jobs: map[string]*api.Job{}, deployments: map[string]*api.Deployment{}, nodes: map[string]*api.NodeListStub{},
		volumes: map[string]*api.HostVolumeStub{}, machines: map[string]*machineView{}}
	leader, err := c.Agree(ctx)
	if err != nil {
		return nil, err
	}
	if err := v.askServers(ctx, leader.Client); err != nil {
		return nil, fmt.Errorf("ask the servers: %w", err)
	}
	for _, m := range c.Machines {
		if m.Lost || m.Pid() == 0 || !m.Runs() {
			continue
		}
		if v.machines[m.ID], err = observeMachine(m); err != nil {
			return nil, fmt.Errorf("look at machine %s: %w", m.Name, err)
		}
	}
	return v, nil
}

// askServers reads the objects of the servers.
func (v *view) askServers(ctx context.Context, c *api.Client) error {
	q := (&api.QueryOptions{}).WithContext(ctx)
	jobs, _, err := c.Jobs().List(q)
	var errs []error
	for _, j := range jobs {
		job, _, err1 := c.Jobs().Info(j.ID, q)
		d, _, err2 := c.Jobs().LatestDeployment(j.ID, q)
		errs = append(errs, err1, err2)
		v.jobs[j.ID], v.deployments[j.ID] = job, d
	}
	stubs, _, err2 := c.Allocations().List(q)
	for _, a := range stubs {
		alloc, _, err := c.Allocations().Info(a.ID, q)
		errs = append(errs, err)
		v.allocs = append(v.allocs, alloc)
	}
	var err3, err4, err5, err6 error
	v.evals, _, err3 = c.Evaluations().List(q)
	v.claims, _, err4 = c.TaskGroupHostVolumeClaims().List(&api.TaskGroupHostVolumeClaimsListRequest{}, q)
	nodes, _, err5 := c.Nodes().List(q)
	for _, n := range nodes {
		v.nodes[n.ID] = n
	}
	volumes, _, err6 := c.HostVolumes().List(&api.HostVolumeListRequest{}, q)
	for _, vol := range volumes {
		v.volumes[vol.ID] = vol
	}
	for _, k := range kinds() {
		rows, _, err := c.Services().Get(k.id, q)
		errs = append(errs, err)
		v.services = append(v.services, rows...)
	}
	return errors.Join(append(errs, err, err2, err3, err4, err5, err6)...)
}

var allocID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// groupName begins the name of the control group of a task.
var groupName = regexp.MustCompile(allocID.String() + `\.t\d`)

// count returns how often each ID of an allocation is in the texts.
func count(texts []string) map[string]int {
	out := map[string]int{}
	for _, t := range texts {
		for _, id := range slices.Compact(allocID.FindAllString(t, -1)) {
			out[id]++
		}
	}
	return out
}

// observeMachine returns what a machine has.
func observeMachine(m *faults.Machine) (*machineView, error) {
	v := &machineView{processes: map[string][]int{}, revision: map[string]int{}, lineage: map[string]string{}, starts: map[string]string{}}
	if err := v.findProcesses(m); err != nil {
		return nil, err
	}
	files := func(pattern string) []string {
		found, _ := filepath.Glob(pattern) // a valid pattern
		return found
	}
	data := m.Root(m.Data())
	v.dirs = count(bases(files(data + "/alloc/*")))
	v.volumes = bases(files(data + "/host_volumes/*"))
	mounts, err := m.Mounts()
	if err != nil {
		return nil, err
	}
	// A machine begins with the mounts of the host, which may have namespaces of the agents of other tests.
	namespaces := slices.DeleteFunc(slices.Clone(mounts), func(at string) bool { return !strings.HasPrefix(at, m.Data()+"/client/netns/") })
	rules, err := m.Output("iptables-save")
	if err != nil {
		return nil, fmt.Errorf("iptables-save: %w", err)
	}
	sets, err := m.Output("nft", "list", "ruleset")
	if err != nil {
		return nil, fmt.Errorf("nft list ruleset: %w", err)
	}
	links, err := m.Output("ip", "-o", "link", "show", "type", "veth")
	if err != nil {
		return nil, fmt.Errorf("ip link: %w", err)
	}
	v.links = strings.Count(string(links), "master nomad")
	records := contents(files(m.Root("/run/nomad-supervise-*/*/meta")))
	v.kept = map[string]map[string]int{
		"network namespace":      count(namespaces),
		"file of a namespace":    count(bases(files(data + "/client/netns/*"))),
		"record of a network":    count(bases(files(data + "/client/network/*.json"))),
		"result of a plugin":     count(bases(files(data + "/client/network/results/*"))),
		"task of the supervisor": count(groupName.FindAllString(strings.Join(records, "\n"), -1)),
		"control group":          count(m.Groups()),
		"nftables rule":          count(strings.Split(string(sets), "\n")), "iptables rule": count(strings.Split(string(rules), "\n")),
		"address": count(contents(files(m.Root("/run/cni/*/*")))),
	}
	for _, f := range files(data + "/alloc/*/alloc/data/lineage") {
		text, _ := os.ReadFile(f) // it may be gone
		v.lineage[allocID.FindString(strings.TrimPrefix(f, data))] = string(text)
	}
	for _, f := range files(data + "/host_volumes/*/starts") {
		text, _ := os.ReadFile(f)
		v.starts[filepath.Base(filepath.Dir(f))] = string(text)
	}
	v.doubled = files(data + "/alloc/*/alloc/tmp/doubled")
	return v, nil
}

func bases(paths []string) []string {
	for i, p := range paths {
		paths[i] = filepath.Base(p)
	}
	return paths
}

func contents(paths []string) []string {
	for i, p := range paths {
		text, _ := os.ReadFile(p) // it may be gone
		paths[i] = string(text)
	}
	return paths
}

// findProcesses finds the processes of tasks by their environment.
func (v *machineView) findProcesses(m *faults.Machine) error {
	pids, err := m.Pids()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		env := environ(pid)
		if env[marker] == "" || helper(pid) {
			continue
		}
		key := env["NOMAD_ALLOC_ID"] + " " + env["NOMAD_TASK_NAME"]
		v.processes[key] = append(v.processes[key], pid)
		v.revision[key], _ = strconv.Atoi(env[marker]) // written by job
	}
	return nil
}

// environ returns the environment of a process, none if it has ended.
func environ(pid int) map[string]string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	out := map[string]string{}
	for _, line := range strings.Split(string(text), "\x00") {
		name, value, _ := strings.Cut(line, "=")
		out[name] = value
	}
	return out
}

// helper reports whether a process with the environment of a task is not the task: it prepares its start, or the task
// forked it.
func helper(pid int) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended
	name, _, _ := strings.Cut(string(text), "\x00")
	return !slices.Contains([]string{"/bin/sh", "sleep", "perl"}, name)
}

// describe returns an allocation with its events.
func describe(a *api.Allocation, name string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s v%d on %s: %s (%s), client %s (%s)", a.ID, a.Name, *a.Job.Version, name,
		a.DesiredStatus, a.DesiredDescription, a.ClientStatus, a.ClientDescription)
	if a.PreviousAllocation != "" {
		fmt.Fprintf(&out, ", after %s", a.PreviousAllocation)
	}
	for task, state := range a.TaskStates {
		fmt.Fprintf(&out, "\n\t%s is %s, paused %q, %d restarts", task, state.State, state.Paused, state.Restarts)
		for _, e := range state.Events {
			fmt.Fprintf(&out, "\n\t\t%s %s: %s", time.Unix(0, e.Time).UTC().Format("15:04:05.000"), e.Type, e.DisplayMessage)
		}
	}
	return out.String()
}
