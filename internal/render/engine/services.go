package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/consul-template/dependency"
	nomadapi "github.com/hashicorp/nomad/api"
)

// errService omits the argument, which can be made of secret values.
var errService = errors.New("malformed argument: want service, tag.service or service@region")

// nomadServices returns the services of the task's namespace. Its argument is empty or @region.
func (e *engine) nomadServices(args ...string) ([]*dependency.NomadServicesSnippet, error) {
	k, ok := newKey(e.req, catalog).parse(dependency.NomadServicesQueryRe, "", strings.Join(args, ""))
	if !ok {
		return nil, errors.New("malformed argument: want @region or none")
	}
	if d := e.ask(k); d != nil {
		return d.catalog, nil
	}
	return nil, nil
}

// nomadService returns the registrations of a service: nomadService "name", or nomadService count "key" "name" for
// some of them, which depend on the key.
func (e *engine) nomadService(args ...any) ([]*dependency.NomadService, error) {
	var arg, choose string
	ok := false
	switch len(args) {
	case 1:
		arg, ok = args[0].(string)
	case 3:
		count, isInt := args[0].(int)
		hash, isText := args[1].(string)
		arg, ok = args[2].(string)
		ok = ok && isInt && isText && count >= 0 && !strings.Contains(hash, "|")
		choose = strconv.Itoa(count) + "|" + hash
	}
	if !ok {
		return nil, errors.New(`wrong arguments: want "service", or a count, a key and "service"`)
	}
	k, ok := newKey(e.req, service).parse(dependency.NomadServiceQueryRe, "name", arg)
	if !ok {
		return nil, errService
	}
	k.choose = choose
	if d := e.ask(k); d != nil {
		return d.services, nil
	}
	return nil, nil
}

// serviceName returns the name of a service for messages. It omits the key of a choice.
func (k key) serviceName() string {
	name := k.path
	if k.tag != "" {
		name = k.tag + "." + name
	}
	return fmt.Sprintf("%s(%s@%s.%s)", k.kind, name, k.namespace, k.region)
}

func decodeCatalog(k key, body []byte) (v content, err error) {
	var list []*nomadapi.ServiceRegistrationListStub
	if json.Unmarshal(body, &list) != nil {
		return content{}, errMalformed
	}
	for _, ns := range list {
		if ns == nil || ns.Namespace != k.namespace {
			continue
		}
		for _, s := range ns.Services {
			if s != nil {
				v.catalog = append(v.catalog, &dependency.NomadServicesSnippet{Name: s.ServiceName, Tags: sortedTags(s.Tags)})
			}
		}
	}
	slices.SortStableFunc(v.catalog, func(a, b *dependency.NomadServicesSnippet) int { return strings.Compare(a.Name, b.Name) })
	return v, nil
}

func decodeServices(k key, body []byte) (v content, err error) {
	var list []*nomadapi.ServiceRegistration
	if json.Unmarshal(body, &list) != nil {
		return content{}, errMalformed
	}
	for _, r := range list {
		if r == nil || k.tag != "" && !slices.Contains(r.Tags, k.tag) {
			continue
		}
		v.services = append(v.services, &dependency.NomadService{ID: r.ID, Name: r.ServiceName, Node: r.NodeID, Address: r.Address, Port: r.Port,
			Datacenter: r.Datacenter, Tags: sortedTags(r.Tags), JobID: r.JobID, AllocID: r.AllocID})
	}
	return v, nil
}

func sortedTags(tags []string) dependency.ServiceTags { return slices.Sorted(slices.Values(tags)) }
