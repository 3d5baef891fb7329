package quota

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/spec"
)

// parse parses a specification: HCL, JSON with the same keys, or JSON of the API.
func parse(text []byte, asJSON bool) (*api.QuotaSpec, error) {
	if asJSON {
		return parseJSON(text)
	}
	r, root, err := spec.Parse("quota", text)
	if err != nil {
		return nil, err
	}
	q := &api.QuotaSpec{Name: r.Text(root, "name"), Description: r.Text(root, "description")}
	for _, block := range r.Blocks(root, "limit") {
		l := &api.QuotaLimit{Region: r.Text(block, "region"), VariablesLimit: r.Int(block, "variables_limit")}
		if res := r.Block(block, "region_limit"); res != nil {
			l.RegionLimit = resources(r, res)
		}
		r.Rest(block, "limit.")
		q.Limits = append(q.Limits, l)
	}
	r.Rest(root, "")
	if q.Name == "" {
		r.Fault(`no name: add name = "..."`)
	}
	return q, r.Err()
}

func parseJSON(text []byte) (*api.QuotaSpec, error) {
	q := &api.QuotaSpec{}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(q); err != nil {
		return nil, fmt.Errorf("Error parsing the quota specification: %w", err)
	}
	if dec.More() {
		return nil, fmt.Errorf("Error parsing the quota specification: more than one JSON object")
	}
	return q, nil
}

func resources(r *spec.Reader, from map[string]any) *api.QuotaResources {
	const prefix = "limit.region_limit."
	out := &api.QuotaResources{CPU: r.Int(from, "cpu"), Cores: r.Int(from, "cores"), MemoryMB: r.Int(from, "memory"),
		MemoryMaxMB: r.Int(from, "memory_max"), Allocs: r.Int(from, "allocs")}
	if s := r.Block(from, "storage"); s != nil {
		out.Storage = &api.QuotaStorageResources{VariablesMB: mebibytes(r, s, "variables")}
		r.Refuse(s, prefix+"storage.", "host_volumes")
		r.Rest(s, prefix+"storage.")
	}
	r.Refuse(from, prefix, "device", "numa", "secrets", "node_pool")
	r.Rest(from, prefix)
	return out
}

// mebibytes parses a number of MiB, or a string such as "10 GiB".
func mebibytes(r *spec.Reader, from map[string]any, name string) int {
	text, isText := from[name].(string)
	if !isText {
		if n := r.Int(from, name); n != nil {
			return *n
		}
		return 0
	}
	delete(from, name)
	number, factor := strings.TrimSpace(text), 1
	for unit, f := range map[string]int{"MiB": 1, "GiB": 1 << 10, "TiB": 1 << 20} {
		if before, found := strings.CutSuffix(number, unit); found {
			number, factor = strings.TrimSpace(before), f
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil {
		r.Fault("%s: %q is not a size: expected a number of MiB, or a string such as \"10 GiB\"", name, text)
	}
	return int(n) * factor
}

const exampleHCL = `# A quota limits the total usage of the namespaces that it is attached to. To attach it,
# set quota = "example" in the namespace.
name        = "example"
description = "Example quota"

# Zero or unset means no limit. A negative value allows none.
limit {
  region = "global"
  region_limit {
    cpu        = 2500 # MHz
    cores      = 0
    memory     = 1000 # MiB
    memory_max = 1000 # MiB
    allocs     = 20
    storage {
      variables = 100 # MiB
    }
  }
}
`

const exampleJSON = `{
  "Name": "example",
  "Description": "Example quota",
  "Limits": [
    {
      "Region": "global",
      "RegionLimit": {
        "CPU": 2500,
        "Cores": 0,
        "MemoryMB": 1000,
        "MemoryMaxMB": 1000,
        "Allocs": 20,
        "Storage": {
          "VariablesMB": 100
        }
      }
    }
  ]
}
`
