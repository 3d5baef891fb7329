package drain

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// TestPlan runs the files of testdata. Each line of a file is one of these:
//
//	node <id> [drain=<deadline>] [ignore-system] [down]
//	job <id> <type> [count=<n>] [parallel=<n>] [plugin] [stopped]
//	plugin <alloc> <node>    the node reports the plugin p of the allocation
//	claim <alloc> <state>    of a volume of the plugin p
//	alloc <id> <job> <node> <client status> [healthy|unhealthy] [migrate] [stop]
//	at <time since the start of the drains>: <allocations to mark>; <completed nodes>; next <deadline>
//
// The parts of the last kind that are empty are left out. An allocation belongs to the group g of its job, and the
// number at the end of its ID is its index.
func TestPlan(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			w := newFleet()
			checks := 0
			for lines, n := bufio.NewScanner(f), 1; lines.Scan(); n++ {
				line := strings.TrimSpace(lines.Text())
				at, isCheck := strings.CutPrefix(line, "at ")
				switch {
				case line == "" || strings.HasPrefix(line, "#"):
				case isCheck:
					checks++
					offset, want, _ := strings.Cut(at, ":")
					if got := w.plan(t, duration(t, offset)); got != strings.TrimSpace(want) {
						t.Errorf("%s:%d: at %s: got %q, want %q", file, n, offset, got, strings.TrimSpace(want))
					}
				default:
					w.add(t, strings.Fields(line))
				}
			}
			if checks == 0 {
				t.Error("no check")
			}
		})
	}
}

// fleet is the state that a file describes.
type fleet struct {
	*testlog.Log
	start time.Time
}

func newFleet() *fleet { return &fleet{testlog.New(nil), time.Unix(1_000_000, 0).UTC()} }

func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(strings.TrimSpace(s))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// options returns the words of a line as a set, and the values of those with an equals sign.
func options(words []string) map[string]string {
	out := map[string]string{}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		out[key] = value
	}
	return out
}

func (f *fleet) add(t *testing.T, words []string) {
	t.Helper()
	switch words[0] {
	case "node":
		f.addNode(t, words[1], options(words[2:]))
	case "job":
		f.addJob(t, words[1], words[2], options(words[3:]))
	case "alloc":
		f.addAlloc(t, words[1:5], options(words[5:]))
	case "plugin":
		n := *f.Snapshot().Node(nil, words[2])
		n.CSINodePlugins = map[string]*nomad.CSIInfo{"p": {PluginID: "p", AllocID: words[1], Healthy: true, NodeInfo: &nomad.CSINodeInfo{ID: n.ID}}}
		f.Must(t, message.NodeRegisterRequestType, &message.NodeRegisterRequest{Node: &n})
	case "claim":
		f.addClaim(t, words[1], words[2])
	default:
		t.Fatalf("unknown line %q", words)
	}
}

func (f *fleet) addNode(t *testing.T, id string, opts map[string]string) {
	t.Helper()
	_, down := opts["down"]
	f.Node(t, func(n *nomad.Node) {
		n.ID, n.Name = id, id
		if down {
			n.Status = nomad.NodeStatusDown
		}
	})
	deadline, drains := opts["drain"]
	if !drains {
		return
	}
	_, ignore := opts["ignore-system"]
	s := &nomad.DrainStrategy{StartedAt: f.start, DrainSpec: nomad.DrainSpec{Deadline: duration(t, deadline), IgnoreSystemJobs: ignore}}
	if s.Deadline > 0 {
		s.ForceDeadline = f.start.Add(s.Deadline)
	}
	f.Must(t, message.NodeUpdateDrainRequestType, &message.NodeUpdateDrainRequest{NodeID: id, DrainStrategy: s, UpdatedAt: f.start.Unix()})
}

func (f *fleet) addJob(t *testing.T, id, typ string, opts map[string]string) {
	t.Helper()
	number := func(key string, otherwise int) int {
		if opts[key] == "" {
			return otherwise
		}
		n, err := strconv.Atoi(opts[key])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	_, plugin := opts["plugin"]
	_, stopped := opts["stopped"]
	f.Job(t, typ, number("count", 1), func(j *nomad.Job) {
		j.ID, j.Name, j.Stop = id, id, stopped
		if typ == nomad.JobTypeService {
			j.TaskGroups[0].Migrate = &nomad.MigrateStrategy{MaxParallel: number("parallel", 1)}
		}
		if plugin {
			j.TaskGroups[0].Tasks[0].CSIPluginConfig = &nomad.TaskCSIPluginConfig{ID: "p", Type: csi.PluginNode}
		}
	})
}

// addAlloc adds an allocation: id, job, node and client status.
func (f *fleet) addAlloc(t *testing.T, words []string, opts map[string]string) {
	t.Helper()
	id, job, node, status := words[0], f.Snapshot().Job(nil, nomad.DefaultNamespace, words[1]), f.Snapshot().Node(nil, words[2]), words[3]
	if job == nil || node == nil {
		t.Fatalf("unknown job or node: %q", words)
	}
	index, err := strconv.Atoi(strings.TrimLeft(id, "abcdefghijklmnopqrstuvwxyz"))
	if err != nil {
		t.Fatal(err)
	}
	if f.Snapshot().Alloc(nil, id) == nil {
		f.Alloc(t, job, node, func(a *nomad.Allocation) { a.ID, a.Name = id, nomad.AllocName(job.ID, "g", uint(index)) })
	}
	update := *f.Snapshot().Alloc(nil, id)
	update.ClientStatus = status
	_, healthy := opts["healthy"]
	_, unhealthy := opts["unhealthy"]
	if healthy || unhealthy {
		update.DeploymentStatus = &nomad.AllocDeploymentStatus{Healthy: &healthy, Timestamp: f.start}
	}
	f.Must(t, message.AllocClientUpdateRequestType, &message.AllocUpdateRequest{Alloc: []*nomad.Allocation{&update}})
	if _, stop := opts["stop"]; stop {
		stopped := *f.Snapshot().Alloc(nil, id)
		stopped.DesiredStatus = nomad.AllocDesiredStatusStop
		f.Must(t, message.ApplyPlanResultsRequestType, &message.ApplyPlanResultsRequest{AllocsUpdated: []*nomad.Allocation{&stopped}})
	}
	if _, migrate := opts["migrate"]; migrate {
		yes := true
		f.Must(t, message.AllocUpdateDesiredTransitionRequestType, &message.AllocUpdateDesiredTransitionRequest{
			Allocs: map[string]*nomad.DesiredTransition{id: {Migrate: &yes}}})
	}
}

// addClaim adds the claim of an allocation on a volume of its own, or records its next state.
func (f *fleet) addClaim(t *testing.T, alloc, state string) {
	t.Helper()
	if f.Snapshot().CSIVolume(nil, "default", alloc) == nil {
		f.Must(t, message.CSIVolumeRegisterRequestType, &message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{{ID: alloc,
			Namespace: "default", PluginID: "p", RequestedCapabilities: []*csi.Capability{{AccessMode: nomad.VolumeSingleNodeWriter,
				AttachmentMode: nomad.VolumeAttachFilesystem}}}}})
	}
	states := map[string]csi.ClaimState{}
	for s := csi.ClaimTaken; s <= csi.ClaimUnpublishing; s++ {
		states[s.String()] = s
	}
	to, ok := states[state]
	if !ok {
		t.Fatalf("unknown state %q", state)
	}
	f.Must(t, message.CSIVolumeClaimRequestType, &message.CSIVolumeClaimRequest{VolumeID: alloc, AllocationID: alloc, Claim: csi.ClaimWrite,
		State: to, WriteRequest: message.WriteRequest{Namespace: "default"}})
}

// plan returns the plan at a time as text.
func (f *fleet) plan(t *testing.T, offset time.Duration) string {
	t.Helper()
	s := plan(f.Snapshot(), nil, f.start.Add(offset))
	var parts []string
	if len(s.mark) > 0 {
		var ids []string
		for _, a := range s.mark {
			ids = append(ids, a.ID)
		}
		slices.Sort(ids)
		if len(slices.Compact(slices.Clone(ids))) != len(ids) {
			t.Errorf("marked twice: %q", ids)
		}
		parts = append(parts, strings.Join(ids, " "))
	}
	for _, c := range s.done {
		text := "done " + c.node
		if c.deadline {
			text += " by deadline"
		}
		parts = append(parts, text)
	}
	if !s.next.IsZero() {
		parts = append(parts, fmt.Sprintf("next %s", s.next.Sub(f.start)))
	}
	return strings.Join(parts, "; ")
}
