package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/open-nomad/open-nomad/api"
)

// poolFile is a node pool specification.
type poolFile struct {
	Pools []poolBlock `hcl:"node_pool,block"`
}

type poolBlock struct {
	Name            string            `hcl:"name,label"`
	Description     string            `hcl:"description,optional"`
	NodeIdentityTTL string            `hcl:"node_identity_ttl,optional"`
	Meta            []metaBlock       `hcl:"meta,block"`
	Scheduler       []schedulerBlock  `hcl:"scheduler_config,block"`
	MetaMap         map[string]string `hcl:"meta,optional"`
}

// metaBlock accepts any attributes.
type metaBlock struct {
	Body hcl.Body `hcl:",remain"`
}

// schedulerBlock overrides the cluster's scheduler configuration.
type schedulerBlock struct {
	Algorithm       string `hcl:"scheduler_algorithm,optional"`
	Oversubscribing *bool  `hcl:"memory_oversubscription_enabled,optional"`
}

// parsePool parses a node pool specification in HCL or JSON.
func parsePool(name string, text []byte, asJSON bool) (*api.NodePool, error) {
	if asJSON {
		return parsePoolJSON(name, text)
	}
	file, diags := hclsyntax.ParseConfig(text, name, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, fmt.Errorf("Error parsing node pool: %w", diags)
	}
	var f poolFile
	if diags := gohcl.DecodeBody(file.Body, nil, &f); diags.HasErrors() {
		return nil, fmt.Errorf("Error parsing node pool: %w", diags)
	}
	if len(f.Pools) != 1 {
		return nil, fmt.Errorf("Error parsing node pool: %s has %d node_pool blocks, want 1", name, len(f.Pools))
	}
	return f.Pools[0].pool()
}

// poolKeys are the keys of a node pool in the HTTP API.
var poolKeys = []string{"Name", "Description", "Meta", "NodeIdentityTTL", "SchedulerConfiguration", "Hash", "CreateIndex", "ModifyIndex"}

func parsePoolJSON(name string, text []byte) (*api.NodePool, error) {
	var p api.NodePool
	var keys map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(text, &keys), json.Unmarshal(text, &p)); err != nil {
		return nil, fmt.Errorf("Error parsing node pool: %s: %w", name, err)
	}
	for key := range keys {
		if !slices.ContainsFunc(poolKeys, func(k string) bool { return strings.EqualFold(k, key) }) {
			return nil, fmt.Errorf("Error parsing node pool: %s: unknown key %q", name, key)
		}
	}
	if p.Name == "" {
		return nil, fmt.Errorf("Error parsing node pool: %s has no Name", name)
	}
	return &p, nil
}

// pool converts the block to the type of the API.
func (b *poolBlock) pool() (*api.NodePool, error) {
	p := &api.NodePool{Name: b.Name, Description: b.Description, Meta: b.MetaMap}
	switch len(b.Scheduler) {
	case 0:
	case 1:
		p.SchedulerConfiguration = &api.NodePoolSchedulerConfiguration{
			SchedulerAlgorithm: api.SchedulerAlgorithm(b.Scheduler[0].Algorithm), MemoryOversubscriptionEnabled: b.Scheduler[0].Oversubscribing}
	default:
		return nil, fmt.Errorf("Error parsing node pool: %d scheduler_config blocks, want at most 1", len(b.Scheduler))
	}
	if b.NodeIdentityTTL != "" {
		ttl, err := time.ParseDuration(b.NodeIdentityTTL)
		if err != nil || ttl <= 0 {
			return nil, fmt.Errorf("invalid node_identity_ttl %q: want a duration such as 24h", b.NodeIdentityTTL)
		}
		p.NodeIdentityTTL = ttl
	}
	for _, m := range b.Meta {
		attrs, diags := m.Body.JustAttributes()
		for key, a := range attrs {
			var value string
			diags = append(diags, gohcl.DecodeExpression(a.Expr, nil, &value)...)
			if p.Meta == nil {
				p.Meta = map[string]string{}
			}
			p.Meta[key] = value
		}
		if diags.HasErrors() {
			return nil, fmt.Errorf("Error parsing node pool: %w", diags)
		}
	}
	return p, nil
}

const examplePool = `# A node pool is a set of nodes. A job selects it by name. A node joins it with
# client { node_pool = "example" }.
node_pool "example" {
  description = "Example node pool"

  # The TTL of the identities of the pool's nodes. Nodes renew their identity before it
  # expires. Default: 24h.
  node_identity_ttl = "24h"

  # Overrides for the jobs of the pool: the scheduler algorithm (binpack or spread), and
  # whether tasks can use more memory than they reserve.
  # scheduler_config {
  #   scheduler_algorithm             = "spread"
  #   memory_oversubscription_enabled = true
  # }

  # meta is arbitrary metadata.
  meta {
    environment = "prod"
    owner       = "sre"
  }
}
`

const examplePoolJSON = `{
  "Name": "example",
  "Description": "Example node pool",
  "NodeIdentityTTL": "24h",
  "Meta": {
    "environment": "prod",
    "owner": "sre"
  }
}
`
