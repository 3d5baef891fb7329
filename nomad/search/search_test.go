package search_test

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/quota"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/search"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

const (
	nodeID = "a1111111-1111-4111-8111-111111111111"
	evalID = "a2222222-2222-4222-8222-222222222222"
)

// filled returns a state with objects in two namespaces.
func filled(t *testing.T) *state.Snapshot {
	t.Helper()
	store := state.New(slog.New(slog.DiscardHandler))
	index := uint64(10)
	must := func(_ *state.Changes, err error) {
		t.Helper()
		if index++; err != nil {
			t.Fatal(err)
		}
	}
	must(store.UpsertNamespaces(index, &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "prod"}}}))
	must(store.UpsertQuotas(index, &message.QuotaUpsertRequest{Quotas: []*quota.Spec{{Name: "small"}}}))
	must(store.RegisterNode(index,
		&message.NodeRegisterRequest{Node: &nomad.Node{ID: nodeID, SecretID: nomad.NewID(), Name: "api-host", Status: nomad.NodeStatusReady}}))
	for _, ns := range []string{"default", "prod"} {
		for _, id := range []string{"api", "web-API", "other"} {
			job := &nomad.Job{ID: ns + "-" + id, Name: id, Namespace: ns, Type: nomad.JobTypeService,
				TaskGroups: []*nomad.TaskGroup{{Name: "api-group",
					Services: []*nomad.Service{{Name: "api-service"}},
					Tasks:    []*nomad.Task{{Name: "t", Config: map[string]any{"command": "/bin/api", "image": "x/api:1", "args": []any{"api"}}}}}}}
			must(store.RegisterJob(index, &message.JobRegisterRequest{Job: job}))
		}
		_, changes, err := store.ApplyVariable(index, &message.VarApplyStateRequest{Op: variable.OpSet, Var: &variable.Encrypted{
			Metadata: variable.Metadata{Namespace: ns, Path: "db/api"}}})
		must(changes, err)
	}
	for _, ns := range []string{"default", "prod"} {
		must(store.RegisterCSIVolumes(index, &message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{{ID: "disk-" + ns, Namespace: ns, PluginID: "ebs"}}}))
		must(store.RegisterHostVolume(index, &message.HostVolumeRegisterRequest{Volume: &hostvolume.Volume{ID: "9" + nomad.NewID()[1:],
			Name: "host-disk-" + ns, Namespace: ns, NodeID: nodeID}}))
	}
	must(store.RegisterJob(index, &message.JobRegisterRequest{Job: &nomad.Job{ID: "ebs", Name: "ebs", Namespace: "default", Type: nomad.JobTypeService,
		TaskGroups: []*nomad.TaskGroup{{Name: "g", Count: 1, Tasks: []*nomad.Task{{Name: "t",
			CSIPluginConfig: &nomad.TaskCSIPluginConfig{ID: "ebs-plugin", Type: csi.PluginNode}}}}}}}))
	must(store.UpsertEvals(index,
		&message.EvalUpdateRequest{Evals: []*nomad.Evaluation{{ID: evalID, Namespace: "prod", JobID: "prod-api",
			Status: nomad.EvalStatusComplete}}}))
	return store.Snapshot()
}

func finder(t *testing.T, snap *state.Snapshot, namespace, policy string) *search.Finder {
	t.Helper()
	rights := acl.New(policy == "management")
	if policy != "management" && policy != "" {
		p, err := acl.Parse(policy)
		if err != nil {
			t.Fatal(err)
		}
		rights = acl.New(false, p)
	}
	return &search.Finder{Snapshot: snap, Access: &rpc.Access{Rights: rights}, Namespace: namespace}
}

// found omits empty contexts.
func found[T any](matches map[message.Context][]T) map[message.Context][]T {
	out := map[message.Context][]T{}
	for c, m := range matches {
		if len(m) > 0 {
			out[c] = m
		}
	}
	return out
}

func TestPrefix(t *testing.T) {
	snap := filled(t)
	type matches = map[message.Context][]string
	for name, c := range map[string]struct {
		namespace, policy, prefix string
		context                   message.Context
		want                      matches
		denied                    bool
	}{
		"everything": {"*", "management", "a", "",
			matches{message.ContextNodes: {nodeID}, message.ContextEvals: {evalID}, message.ContextNodePools: {"all"}}, false},
		"a namespace": {"prod", "management", "prod", message.ContextAll,
			matches{message.ContextJobs: {"prod-api", "prod-other", "prod-web-API"}, message.ContextNamespaces: {"prod"}}, false},
		"another namespace": {"default", "management", "prod", "", matches{message.ContextNamespaces: {"prod"}}, false},
		"no rights":         {"*", "", "", "", matches{}, false},
		"one namespace": {"*", `namespace "prod" { policy = "read" }`, "", message.ContextJobs,
			matches{message.ContextJobs: {"prod-api", "prod-other", "prod-web-API"}}, false},
		"nodes only": {"*", `node { policy = "read" }`, "", "", matches{message.ContextNodes: {nodeID}}, false},
		"variables only": {"*", `namespace "prod" { variables { path "db/*" { capabilities = ["list"] } } }`, "", "",
			matches{message.ContextVariables: {"db/api"}}, false},
		"jobs, denied":      {"prod", `namespace "default" { policy = "read" }`, "", message.ContextJobs, nil, true},
		"nodes, denied":     {"prod", `namespace "*" { policy = "read" }`, "", message.ContextNodes, nil, true},
		"variables, denied": {"prod", `namespace "*" { policy = "read" }`, "", message.ContextVariables, nil, true},
		"quotas": {"prod", `quota { policy = "read" }`, "sm", message.ContextQuotas, matches{message.ContextQuotas: {"small"}},
			false},
		"quotas, denied": {"prod", `node_pool "default" { policy = "read" }`, "sm", message.ContextQuotas, nil, true},
		"node pools, one": {"prod", `node_pool "default" { policy = "read" }`, "", message.ContextNodePools,
			matches{message.ContextNodePools: {"default"}}, false},
		"volumes": {"prod", "management", "disk", message.ContextVolumes, matches{message.ContextVolumes: {"disk-prod"}}, false},
		"volumes, everywhere": {"*", `namespace "prod" { policy = "read" }`, "disk", message.ContextVolumes,
			matches{message.ContextVolumes: {"disk-prod"}}, false},
		"volumes, denied":      {"default", `namespace "prod" { policy = "read" }`, "disk", message.ContextVolumes, nil, true},
		"plugins":              {"prod", `plugin { policy = "list" }`, "ebs", message.ContextPlugins, matches{message.ContextPlugins: {"ebs-plugin"}}, false},
		"plugins, denied":      {"prod", `namespace "*" { policy = "write" }`, "ebs", message.ContextPlugins, nil, true},
		"host volumes, denied": {"prod", `namespace "prod" { capabilities = ["read-job"] }`, "9", message.ContextHostVolumes, nil, true},
	} {
		f := finder(t, snap, c.namespace, c.policy)
		var out message.SearchResponse
		err := f.Prefix(&message.SearchRequest{Prefix: c.prefix, Context: c.context}, &out)
		if errors.Is(err, apierror.ErrPermissionDenied) != c.denied || !c.denied &&
			(err != nil || !reflect.DeepEqual(found(out.Matches), c.want)) {
			t.Errorf("%s: %v, %v, want %v", name, found(out.Matches), err, c.want)
		}
	}
	if err := finder(t, snap, "*", "management").Prefix(&message.SearchRequest{Context: "nonsense"}, &message.SearchResponse{}); err == nil {
		t.Error("an unknown context is accepted")
	}
}

// TestFuzzy_Volumes checks that volumes and plugins are found by a part of their name, with the rights of their kind.
func TestFuzzy_Volumes(t *testing.T) {
	snap := filled(t)
	type matches = map[message.Context][]string
	for policy, want := range map[string]matches{
		"management": {message.ContextVolumes: {"disk-default", "disk-prod"}, message.ContextHostVolumes: {"host-disk-default", "host-disk-prod"}},
		`namespace "prod" { capabilities = ["csi-list-volume"] }`:  {message.ContextVolumes: {"disk-prod"}},
		`namespace "prod" { capabilities = ["host-volume-read"] }`: {message.ContextHostVolumes: {"host-disk-prod"}},
		`plugin { policy = "list" }`:                               {},
	} {
		var out message.FuzzySearchResponse
		if err := finder(t, snap, "*", policy).Fuzzy(&message.FuzzySearchRequest{Text: "disk"}, limits, &out); err != nil {
			t.Fatal(err)
		}
		got := matches{}
		for c, list := range found(out.Matches) {
			for _, m := range list {
				got[c] = append(got[c], m.ID)
			}
			slices.Sort(got[c])
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", policy, got, want)
		}
	}
}

// At most twenty IDs are returned, and only those that the caller may see are counted.
func TestPrefixIsBounded(t *testing.T) {
	store := state.New(slog.New(slog.DiscardHandler))
	if _, err := store.UpsertNamespaces(9, &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "hidden"}}}); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		ns := "default"
		if i >= 20 {
			ns = "hidden"
		}
		if _, err := store.RegisterJob(uint64(10+i),
			&message.JobRegisterRequest{Job: &nomad.Job{ID: fmt.Sprint("j", i), Namespace: ns, Type: nomad.JobTypeBatch}}); err != nil {
			t.Fatal(err)
		}
	}
	for policy, truncated := range map[string]bool{"management": true, `namespace "default" { policy = "read" }`: false} {
		var out message.SearchResponse
		if err := finder(t, store.Snapshot(), "*", policy).Prefix(&message.SearchRequest{Context: message.ContextJobs}, &out); err != nil {
			t.Fatal(err)
		}
		if len(out.Matches[message.ContextJobs]) != 20 || out.Truncations[message.ContextJobs] != truncated {
			t.Errorf("%s: %d jobs, truncated %v", policy, len(out.Matches[message.ContextJobs]), out.Truncations[message.ContextJobs])
		}
	}
}

var limits = search.Limits{Gathered: 20, Results: 100, MinText: 2}

func TestFuzzy(t *testing.T) {
	snap := filled(t)
	var out message.FuzzySearchResponse
	if err := finder(t, snap, "prod", "management").Fuzzy(&message.FuzzySearchRequest{Text: "API"}, limits, &out); err != nil {
		t.Fatal(err)
	}
	got := found(out.Matches)
	groups := func(scope ...string) (all []message.FuzzyMatch) {
		for _, id := range []string{"prod-api", "prod-other", "prod-web-API"} {
			all = append(all, message.FuzzyMatch{ID: scope[0], Scope: append([]string{"prod", id}, scope[1:]...)})
		}
		return all
	}
	want := map[message.Context][]message.FuzzyMatch{
		message.ContextJobs:      {{ID: "api", Scope: []string{"prod", "prod-api"}}, {ID: "web-API", Scope: []string{"prod", "prod-web-API"}}},
		message.ContextNodes:     {{ID: "api-host", Scope: []string{nodeID}}},
		message.ContextVariables: {{ID: "db/api", Scope: []string{"prod", "db/api"}}},
		message.ContextGroups:    groups("api-group"), message.ContextServices: groups("api-service", "api-group"),
		message.ContextCommands: groups("/bin/api", "api-group", "t"), message.ContextImages: groups("x/api:1", "api-group", "t"),
	}
	for c, m := range want {
		if !reflect.DeepEqual(got[c], m) {
			t.Errorf("%s: %v, want %v", c, got[c], m)
		}
	}
	if len(got) != len(want) {
		t.Errorf("found in %d contexts, want %d: %v", len(got), len(want), got)
	}
}

func TestFuzzyIsFilteredAndBounded(t *testing.T) {
	snap := filled(t)
	search := func(policy, text string, context message.Context, l search.Limits) (map[message.Context][]message.FuzzyMatch,
		map[message.Context]bool, error) {
		var out message.FuzzySearchResponse
		err := finder(t, snap, "*", policy).Fuzzy(&message.FuzzySearchRequest{Text: text, Context: context}, l, &out)
		return found(out.Matches), out.Truncations, err
	}
	if got, _, err := search("", "api", "", limits); err != nil || len(got) != 0 {
		t.Errorf("without rights: %v, %v", got, err)
	}
	if got, _, err := search(`namespace "prod" { policy = "read" }`, "api", message.ContextJobs, limits); err != nil ||
		len(got[message.ContextJobs]) != 2 || len(got[message.ContextGroups]) != 3 {
		t.Errorf("with a right in one namespace: %v, %v", got, err)
	}
	few := limits
	few.Results = 1
	if got, more, _ := search("management", "api", message.ContextJobs, few); len(got[message.ContextJobs]) != 1 ||
		!more[message.ContextJobs] {
		t.Errorf("one result: %v, %v", got, more)
	}
	few = limits
	few.Gathered = 1
	if got, more, _ := search("management", "api", message.ContextJobs, few); len(got[message.ContextJobs]) != 1 ||
		!more[message.ContextJobs] {
		t.Errorf("one gathered match: %v, %v", got, more)
	}
	if _, _, err := search("management", "a", "", limits); err == nil {
		t.Error("a text of one character is accepted")
	}
	if _, _, err := search("management", "api", "", searchOff()); err == nil {
		t.Error("searches while disabled")
	}
}

func searchOff() search.Limits {
	l := limits
	l.Off = true
	return l
}
