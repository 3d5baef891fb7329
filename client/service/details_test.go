package service_test

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// registered returns the registration of a group service.
func registered(s *nomad.Service, canary bool) (*catalog.Registration, error) {
	s.Name, s.Provider, s.PortLabel = "web", "nomad", "http"
	a := placed(s, nil)
	a.DeploymentStatus = &nomad.AllocDeploymentStatus{Canary: canary}
	w := service.OfGroup(a, node, "global", nil)
	regs, err := w.Registrations()
	if err != nil {
		return nil, err
	}
	return regs[0], nil
}

func TestMeta(t *testing.T) {
	stable := map[string]string{"role-${NOMAD_META_tier}": "${NOMAD_ALLOC_INDEX}"}
	canary := map[string]string{"${NOMAD_META_tier}": "new", "external-source": "elsewhere"}
	for _, tc := range []struct {
		name   string
		meta   map[string]string
		canary map[string]string
		is     bool
		want   map[string]string
	}{
		{"none", nil, nil, false, map[string]string{}},
		{"keys and values are interpolated", stable, canary, false, map[string]string{"role-front": "2"}},
		{"canary", stable, canary, true, map[string]string{"front": "new"}},
		{"canary without canary_meta", stable, nil, true, map[string]string{"role-front": "2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := registered(&nomad.Service{Meta: tc.meta, CanaryMeta: tc.canary}, tc.is)
			if err != nil {
				t.Fatal(err)
			}
			want := maps.Clone(tc.want)
			want["external-source"] = "nomad"
			if !reflect.DeepEqual(got.Meta, want) {
				t.Errorf("meta = %v, want %v", got.Meta, want)
			}
		})
	}
}

// TestMeta_SameKeys checks that keys which interpolation makes equal always give the same registration.
func TestMeta_SameKeys(t *testing.T) {
	for range 50 {
		got, err := registered(&nomad.Service{Meta: map[string]string{"front": "b", "${NOMAD_META_tier}": "a"}}, false)
		if err != nil || got.Meta["front"] != "b" {
			t.Fatalf("meta = %v, %v; want b of the last key in order", got.Meta, err)
		}
	}
}

func TestTaggedAddresses(t *testing.T) {
	for _, tc := range []struct {
		give string
		want catalog.TaggedAddress
		err  string
	}{
		{"${NOMAD_META_tier}.example.com:443", catalog.TaggedAddress{Address: "front.example.com", Port: 443}, ""},
		{"front.example.com", catalog.TaggedAddress{}, `error parsing address "front.example.com": not an IP address`},
	} {
		t.Run(tc.give, func(t *testing.T) {
			got, err := registered(&nomad.Service{TaggedAddresses: map[string]string{"lan-${NOMAD_META_tier}": tc.give}}, false)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), `service "web"`) {
					t.Errorf("error = %v, want %q of the service", err, tc.err)
				}
				return
			}
			if err != nil || got.TaggedAddresses["lan-front"] != tc.want {
				t.Errorf("tagged addresses = %v, %v; want %v", got, err, tc.want)
			}
		})
	}
}

func TestWeightsAndOverride(t *testing.T) {
	got, err := registered(&nomad.Service{Weights: &nomad.ServiceWeights{Passing: 5, Warning: 2}, EnableTagOverride: true}, false)
	if err != nil || got.Weights == nil || *got.Weights != (catalog.Weights{Passing: 5, Warning: 2}) || !got.EnableTagOverride {
		t.Errorf("registration = %+v, %v", got, err)
	}
	if got, err = registered(&nomad.Service{}, false); err != nil || got.Weights != nil || got.TaggedAddresses != nil || got.EnableTagOverride {
		t.Errorf("registration without them = %+v, %v", got, err)
	}
}

// TestTooMuchText checks that the client refuses what the servers refuse, with an error that names the service and is
// short.
func TestTooMuchText(t *testing.T) {
	many, addresses := map[string]string{}, map[string]string{}
	for i := range catalog.MaxMeta {
		many[fmt.Sprint(i)] = "x"
		addresses[fmt.Sprint(i)], addresses[fmt.Sprint("a", i)] = "10.1.2.3", "10.1.2.3"
	}
	long := strings.Repeat("x", 70_000)
	for name, tc := range map[string]struct {
		give nomad.Service
		want string
	}{
		"pairs":          {nomad.Service{Meta: many}, "meta has 65 pairs: at most 64"}, // one is external-source
		"value":          {nomad.Service{Meta: map[string]string{"a": long}}, `the value of "a" in meta must be one line of at most 512`},
		"lines":          {nomad.Service{Meta: map[string]string{"a": "b\nc"}}, `the value of "a" in meta must be one line`},
		"key":            {nomad.Service{Meta: map[string]string{long: "a"}}, "want 1 to 128 bytes"},
		"key with space": {nomad.Service{Meta: map[string]string{"a b": "a"}}, "without spaces"},
		"tags":           {nomad.Service{Tags: []string{long}}, "have 70020 bytes: at most 32768"},
		"lines of a tag": {nomad.Service{Tags: []string{"a\nb"}}, "has control characters"},
		"addresses":      {nomad.Service{TaggedAddresses: addresses}, "tagged_addresses has 128 addresses: at most 64"},
		"name of one":    {nomad.Service{TaggedAddresses: map[string]string{long: "10.1.2.3"}}, "want 1 to 128 bytes"},
		"broken address": {nomad.Service{TaggedAddresses: map[string]string{long: long}}, "error parsing address"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := registered(&tc.give, false)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), `service "web"`) || len(err.Error()) > 1000 {
				t.Errorf("error = %v, want %q of service web, 1000 bytes at most", err, tc.want)
			}
		})
	}
}
