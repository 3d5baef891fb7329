package engine

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/hashicorp/consul-template/dependency"
	consulapi "github.com/hashicorp/consul/api"
	nomadapi "github.com/hashicorp/nomad/api"
)

var (
	// errHealth omits the argument, which can be made of secret values.
	errHealth = errors.New("malformed argument: want [tag.]service[?ns=namespace][@datacenter][~_agent][|status,...]")
	// errStatus lists the words of a filter.
	errStatus = errors.New("malformed filter: want any, passing, warning, critical or maintenance, separated by commas")
	errNear   = errors.New("only ~_agent is supported: distances between nodes are not measured")
)

// service returns the instances of a service, by default those that pass their checks.
func (e *engine) service(args ...string) ([]*dependency.HealthService, error) {
	if len(args) == 0 || args[0] == "" {
		return []*dependency.HealthService{}, nil
	}
	k, err := e.healthKey(strings.Join(args, "|"))
	if err != nil {
		return nil, err
	}
	if d := e.ask(k); d != nil {
		return d.instances, nil
	}
	return []*dependency.HealthService{}, nil
}

func (e *engine) healthKey(arg string) (key, error) {
	a, ok, err := parseConsul(e.req, dependency.HealthServiceQueryRe, arg)
	if !ok || err != nil {
		return key{}, cmp.Or(err, errHealth)
	}
	statuses, err := parseStatuses(a.parts["filter"])
	if err != nil {
		return key{}, err
	}
	nearest := ""
	switch a.parts["near"] {
	case "":
	case "_agent":
		nearest = e.req.NodeID
	default:
		return key{}, errNear
	}
	name := a.parts["name"]
	if a.parts["tag"] != "" {
		name = a.parts["tag"] + "." + name
	}
	return key{kind: health, path: a.parts["name"], tag: a.parts["tag"], namespace: a.namespace, region: e.req.Region,
		consul: consul{label: a.label(name) + "|" + statuses, datacenter: a.parts["dc"], statuses: statuses, nearest: nearest}}, nil
}

// parseStatuses returns the words of a filter, sorted and separated by commas.
func parseStatuses(filter string) (string, error) {
	if filter == "" {
		return dependency.HealthPassing, nil
	}
	words := strings.Split(filter, ",")
	for _, word := range words {
		switch word {
		case dependency.HealthAny, dependency.HealthPassing, dependency.HealthWarning, dependency.HealthCritical, dependency.HealthMaint:
		default:
			return "", errStatus
		}
	}
	slices.Sort(words)
	return strings.Join(slices.Compact(words), ","), nil
}

// servicesOfConsul returns the names and tags of the services of a namespace.
func (e *engine) servicesOfConsul(args ...string) ([]*dependency.CatalogSnippet, error) {
	a, ok, err := parseConsul(e.req, dependency.CatalogServicesQueryRe, strings.Join(args, ""))
	if !ok {
		err = errors.New("malformed argument: want [?ns=namespace][@datacenter] or none")
	}
	if err == nil {
		err = a.ownDatacenter(e.req)
	}
	if err != nil {
		return nil, err
	}
	k := key{kind: snippets, namespace: a.namespace, region: e.req.Region, consul: consul{label: a.label("")}}
	if d := e.ask(k); d != nil {
		return d.snippets, nil
	}
	return []*dependency.CatalogSnippet{}, nil
}

// datacenters returns the datacenter of the node. A task cannot list the nodes of others. The argument, whether to leave
// out datacenters that fail, has no effect.
func (e *engine) datacenters(ignored ...bool) ([]string, error) {
	if len(ignored) > 1 {
		return nil, errors.New("more than one argument")
	}
	return []string{e.req.Datacenter}, nil
}

// instance is an element of the response for the instances of a service: a registration with the name and the address
// of its node. nomad/catalog has the fields.
type instance struct {
	nomadapi.ServiceRegistration
	Meta            map[string]string
	TaggedAddresses map[string]consulapi.ServiceAddress
	Weights         *consulapi.AgentWeights
	Status          string
	Checks          []*check
	NodeName        string
	NodeAddress     string
}

type check struct{ ID, Name, Type, Status, Output string }

func decodeInstances(k key, body []byte) (content, error) {
	var list []*instance
	if json.Unmarshal(body, &list) != nil {
		return content{}, errMalformed
	}
	out := []*dependency.HealthService{}
	for _, r := range list {
		if r != nil && k.accepts(r) {
			out = append(out, r.health())
		}
	}
	slices.SortStableFunc(out, func(a, b *dependency.HealthService) int {
		return cmp.Or(cmp.Compare(k.distance(a), k.distance(b)), cmp.Compare(a.Node, b.Node), cmp.Compare(a.ID, b.ID))
	})
	return content{instances: out}, nil
}

// distance is 0 for an instance on the node that nearest names, and 1 for the others.
func (k key) distance(h *dependency.HealthService) int {
	if k.nearest != "" && h.NodeID == k.nearest {
		return 0
	}
	return 1
}

// accepts reports whether the instance has the tag, the datacenter and a status of the argument.
func (k key) accepts(r *instance) bool {
	if k.tag != "" && !slices.Contains(r.Tags, k.tag) || k.datacenter != "" && r.Datacenter != k.datacenter {
		return false
	}
	words := strings.Split(k.statuses, ",")
	return slices.Contains(words, dependency.HealthAny) || slices.Contains(words, r.status())
}

// status returns the health. An instance without checks is passing.
func (r *instance) status() string { return cmp.Or(r.Status, dependency.HealthPassing) }

// health returns the instance as Consul describes it. The node's meta is empty: a task cannot read it.
func (r *instance) health() *dependency.HealthService {
	h := &dependency.HealthService{
		Node: cmp.Or(r.NodeName, r.NodeID), NodeID: r.NodeID, NodeAddress: r.NodeAddress,
		NodeTaggedAddresses: map[string]string{"lan": r.NodeAddress, "wan": r.NodeAddress}, NodeMeta: map[string]string{},
		ServiceMeta: r.Meta, Address: cmp.Or(r.Address, r.NodeAddress), ServiceTaggedAddresses: r.TaggedAddresses,
		ID: r.ID, Name: r.ServiceName, Tags: sortedTags(r.Tags), Status: r.status(), Port: r.Port,
		Weights: consulapi.AgentWeights{Passing: 1, Warning: 1},
	}
	if r.Weights != nil {
		h.Weights = *r.Weights
	}
	for _, c := range r.Checks {
		if c != nil {
			h.Checks = append(h.Checks, &consulapi.HealthCheck{Node: h.Node, CheckID: c.ID, Name: c.Name, Type: c.Type, Status: c.Status,
				Output: c.Output, ServiceID: r.ID, ServiceName: r.ServiceName, ServiceTags: h.Tags, Namespace: r.Namespace})
		}
	}
	return h
}

func decodeSnippets(k key, body []byte) (content, error) {
	all, err := decodeCatalog(k, body)
	out := []*dependency.CatalogSnippet{}
	for _, s := range all.catalog {
		out = append(out, &dependency.CatalogSnippet{Name: s.Name, Tags: s.Tags})
	}
	return content{snippets: out}, err
}
