package network_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/open-nomad/open-nomad/client/network"
	"github.com/open-nomad/open-nomad/nomad"
)

// seenArgs are the arguments of a plugin that reads them as the plugins of CNI do.
type seenArgs struct {
	types.CommonArgs
	NOMAD_REGION, NOMAD_NAMESPACE, NOMAD_JOB_ID, NOMAD_GROUP_NAME, NOMAD_ALLOC_ID types.UnmarshallableString
}

// TestArguments_Identifiers checks that a plugin gets every identifier of the allocation, whatever characters it has,
// and that two identifiers never look the same.
func TestArguments_Identifiers(t *testing.T) {
	texts := map[string]string{}
	for _, id := range []string{"web", "web/dispatch-1-2", "my job", "größe", "x;NOMAD_NAMESPACE=admin", "a=b", "a=b=c", ";", "=", "%", "%3B",
		"%253B", "a;b", "a%3Bb", "a\nb", "a\x7f"} {
		r := &network.Request{Region: id,
			Network: &nomad.NetworkResource{Mode: "cni/x", CNI: &nomad.CNIConfig{Args: map[string]string{"NOMAD_JOB_ID": "other", "tier": "fast"}}},
			Alloc:   &nomad.Allocation{ID: "a1", Namespace: id, JobID: id, TaskGroup: id}}
		list, err := network.Arguments(r)
		if err != nil {
			t.Fatal(err)
		}
		var pairs []string
		for _, a := range list {
			pairs = append(pairs, a[0]+"="+a[1])
		}
		text := strings.Join(pairs, ";")
		var got seenArgs
		if err := types.LoadArgs(text, &got); err != nil {
			t.Errorf("%q: a plugin cannot read %q: %v", id, text, err)
			continue
		}
		for name, value := range map[string]types.UnmarshallableString{"NOMAD_REGION": got.NOMAD_REGION, "NOMAD_NAMESPACE": got.NOMAD_NAMESPACE,
			"NOMAD_JOB_ID": got.NOMAD_JOB_ID, "NOMAD_GROUP_NAME": got.NOMAD_GROUP_NAME} {
			if plain, err := url.PathUnescape(string(value)); err != nil || plain != id {
				t.Errorf("%q: %s is %q, which is %q decoded (%v)", id, name, value, plain, err)
			}
		}
		if got.NOMAD_ALLOC_ID != "a1" || strings.Count(text, "NOMAD_NAMESPACE=") != 1 {
			t.Errorf("%q: arguments %q", id, text)
		}
		if before, has := texts[text]; has {
			t.Errorf("%q and %q have the same arguments", id, before)
		}
		texts[text] = id
	}
	for _, plain := range []string{"web", "web/dispatch-1-2", "my job", "größe"} {
		r := &network.Request{Network: &nomad.NetworkResource{}, Alloc: &nomad.Allocation{JobID: plain}}
		if list, _ := network.Arguments(r); list[3] != [2]string{"NOMAD_JOB_ID", plain} {
			t.Errorf("%q is changed: %q", plain, list)
		}
	}
}

// TestArguments_Job checks that an argument of a job is passed on as it is, or is an error.
func TestArguments_Job(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{"tier", "fast", ""}, {"tier", "", ""}, {"tier", "a,b c", ""},
		{"tier", "a;IP=9.9.9.9", "neither key nor value may contain ;"}, {"a;b", "c", "neither key nor value may contain ;"},
		{"NOMAD_JOB_ID=x", "y", "must not be empty or contain ="}, {"", "x", "must not be empty"}, {"a", "b\nc", "args of cni has the entry"},
	} {
		r := &network.Request{Network: &nomad.NetworkResource{Mode: "cni/x", CNI: &nomad.CNIConfig{Args: map[string]string{c.key: c.value}}},
			Alloc: &nomad.Allocation{}}
		list, err := network.Arguments(r)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q = %q: %v, want %q", c.key, c.value, err, c.want)
		}
		if err == nil && list[1] != [2]string{c.key, c.value} {
			t.Errorf("%q = %q: arguments %q", c.key, c.value, list)
		}
	}
}
