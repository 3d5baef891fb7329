package quota

import (
	"reflect"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

func TestSpecification(t *testing.T) {
	example := &api.QuotaSpec{Name: "example", Description: "Example quota",
		Limits: []*api.QuotaLimit{{Region: "global", RegionLimit: &api.QuotaResources{
			CPU: new(2500), Cores: new(0), MemoryMB: new(1000), MemoryMaxMB: new(1000), Allocs: new(20),
			Storage: &api.QuotaStorageResources{VariablesMB: 100}}}}}
	for name, c := range map[string]struct {
		text    string
		json    bool
		want    *api.QuotaSpec
		wantErr string // of the error
	}{
		"example":         {text: exampleHCL, want: example},
		"example in JSON": {text: exampleJSON, json: true, want: example},
		"JSON with the keys of HCL": {text: `{"name": "a", "limit": [{"region": "r", "region_limit": [{"cpu": -1}]}]}`,
			want: &api.QuotaSpec{Name: "a", Limits: []*api.QuotaLimit{{Region: "r", RegionLimit: &api.QuotaResources{CPU: new(-1)}}}}},
		"older variables": {text: "name = \"a\"\nlimit {\n region = \"r\"\n variables_limit = 5\n}",
			want: &api.QuotaSpec{Name: "a", Limits: []*api.QuotaLimit{{Region: "r", VariablesLimit: new(5)}}}},
		"size": {text: storage(`"2 GiB"`), want: &api.QuotaSpec{Name: "a", Limits: []*api.QuotaLimit{{Region: "r",
			RegionLimit: &api.QuotaResources{Storage: &api.QuotaStorageResources{VariablesMB: 2048}}}}}},
		"no size":          {text: storage(`"much"`), wantErr: "is not a size"},
		"no name":          {text: ``, wantErr: "no name"},
		"invalid HCL":      {text: `name = [`, wantErr: "Error parsing"},
		"unknown":          {text: "name = \"a\"\ncolour = \"red\"", wantErr: "unknown key colour"},
		"unknown in limit": {text: "name = \"a\"\nlimit {\n cpu = 5\n}", wantErr: "unknown key limit.cpu"},
		"text for number":  {text: "name = \"a\"\nlimit {\n region_limit {\n cpu = \"x\"\n }\n}", wantErr: "cpu: expected an integer"},
		"fraction":         {text: "name = \"a\"\nlimit {\n region_limit {\n cpu = 1.5\n }\n}", wantErr: "cpu: expected an integer"},
		"two of them": {text: "name = \"a\"\nlimit {\n region_limit {\n }\n region_limit {\n }\n}",
			wantErr: "region_limit: expected one block"},
		"not built": {text: "name = \"a\"\nlimit {\n region_limit {\n node_pool \"x\" {\n }\n }\n}",
			wantErr: "limit.region_limit.node_pool: not part of this version"},
		"unknown JSON": {text: `{"Name": "a", "Limit": []}`, json: true, wantErr: "Limit"},
		"more JSON":    {text: `{"Name": "a"} {}`, json: true, wantErr: "more than one"},
	} {
		got, err := parse([]byte(c.text), c.json)
		if c.wantErr != "" {
			if err == nil || !strings.Contains(err.Error(), c.wantErr) {
				t.Errorf("%s: %v, want an error about %q", name, err, c.wantErr)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
}

func storage(variables string) string {
	return "name = \"a\"\nlimit {\n region = \"r\"\n region_limit {\n storage {\n variables = " + variables + "\n }\n }\n}"
}

func TestLimits(t *testing.T) {
	spec := &api.QuotaSpec{Limits: []*api.QuotaLimit{
		{Region: "here", Hash: []byte{1},
			RegionLimit: &api.QuotaResources{CPU: new(5), Cores: new(-1), Storage: &api.QuotaStorageResources{VariablesMB: 7}}},
		{Region: "there", Hash: []byte{2}, VariablesLimit: new(9)},
	}}
	usage := &api.QuotaUsage{Used: map[string]*api.QuotaLimit{"AQ==": {Hash: []byte{1},
		RegionLimit: &api.QuotaResources{CPU: new(3), Allocs: new(1)}}}}
	lines := strings.Split(Limits(spec, usage), "\n")
	for i, want := range []string{"here 3 / 5 0 / 0 0 / inf 0 / inf 1 / inf 0 / 7", "there - / inf - / inf - / inf - / inf - / inf - / 9"} {
		if got := strings.Join(strings.Fields(lines[i+1]), " "); got != want {
			t.Errorf("line %d: %q, want %q", i+1, got, want)
		}
	}
}
