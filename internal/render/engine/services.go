package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
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
	k, ok := parseKey(e.req, catalog, dependency.NomadServicesQueryRe, "", strings.Join(args, ""))
	if !ok {
		return nil, errors.New("malformed argument: want @region or none")
	}
	e.evaluated.use(k)
	if d := e.data[k]; d != nil && d.known {
		return d.catalog, nil
	}
	e.evaluated.lacks(k)
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
	k, ok := parseKey(e.req, service, dependency.NomadServiceQueryRe, "name", arg)
	if !ok {
		return nil, errService
	}
	k.choose = choose
	e.evaluated.use(k)
	if d := e.data[k]; d != nil && d.known {
		return d.services, nil
	}
	e.evaluated.lacks(k)
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

// servicePath returns the path of a request about services. It adds parameters to the query.
func (k key) servicePath(q url.Values) string {
	if k.kind == catalog {
		return "/v1/services"
	}
	if k.choose != "" {
		q.Set("choose", k.choose)
	}
	return "/v1/service/" + k.path
}

// decodeServices decodes a response about services.
func decodeServices(k key, status int, body []byte) (v datum, err error) {
	if status != http.StatusOK {
		return datum{}, fmt.Errorf("the API returned status %d: %s", status, oneLine(body))
	}
	if k.kind == catalog {
		var list []*nomadapi.ServiceRegistrationListStub
		if json.Unmarshal(body, &list) != nil {
			return datum{}, errors.New("the response is malformed")
		}
		for _, ns := range list {
			if ns != nil && ns.Namespace == k.namespace {
				v.catalog = append(v.catalog, snippets(ns.Services)...)
			}
		}
		return v, nil
	}
	var list []*nomadapi.ServiceRegistration
	if json.Unmarshal(body, &list) != nil {
		return datum{}, errors.New("the response is malformed")
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

// snippets converts services, sorted by name.
func snippets(list []*nomadapi.ServiceRegistrationStub) []*dependency.NomadServicesSnippet {
	var out []*dependency.NomadServicesSnippet
	for _, s := range list {
		if s != nil {
			out = append(out, &dependency.NomadServicesSnippet{Name: s.ServiceName, Tags: sortedTags(s.Tags)})
		}
	}
	slices.SortFunc(out, func(a, b *dependency.NomadServicesSnippet) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func sortedTags(tags []string) dependency.ServiceTags { return slices.Sorted(slices.Values(tags)) }
