package engine

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/internal/render"
)

// argument is the argument of a function of Consul: parts by their names in the pattern, and the namespace.
type argument struct {
	parts     map[string]string
	namespace string // of the query, or that of the task
}

// errQuery does not name the parameter, which can be made of secret values.
var errQuery = errors.New("unknown parameter after ?: only ns=<namespace> is supported")

// consulOnly holds the query parameters of Consul that have no meaning here.
var consulOnly = []string{"partition", "peer", "sameness-group"}

// parseConsul parses an argument with a pattern of the library. It reports false if the pattern does not match.
func parseConsul(req *render.Request, pattern *regexp.Regexp, arg string) (a argument, ok bool, err error) {
	match := pattern.FindStringSubmatch(arg)
	if match == nil {
		return argument{}, false, nil
	}
	a = argument{parts: map[string]string{}, namespace: req.Namespace}
	for i, name := range pattern.SubexpNames() {
		if name != "" {
			a.parts[name] = match[i]
		}
	}
	query, err := url.ParseQuery(a.parts["query"])
	if err != nil {
		return argument{}, true, errQuery
	}
	for name, values := range query {
		switch {
		case slices.Contains(consulOnly, name):
			return argument{}, true, fmt.Errorf("the parameter %s is refused: only Consul has it", name)
		case name != "ns" || len(values) != 1:
			return argument{}, true, errQuery
		case values[0] != "":
			a.namespace = values[0]
		}
	}
	return a, true, nil
}

// ownDatacenter returns an error if the argument names another datacenter than that of the node.
func (a argument) ownDatacenter(req *render.Request) error {
	if dc := a.parts["dc"]; dc != "" && dc != req.Datacenter {
		return fmt.Errorf("another datacenter than that of the node, %s, is refused: "+
			"all datacenters of a region have the same data, so leave out @", req.Datacenter)
	}
	return nil
}

// label returns the argument as consul-template writes it in messages.
func (a argument) label(name string) string {
	for _, part := range []struct{ sign, text string }{
		{"@", a.parts["dc"]}, {"@ns=", strings.TrimPrefix(a.parts["query"], "ns=")}, {"~", a.parts["near"]},
	} {
		if part.text != "" {
			name += part.sign + part.text
		}
	}
	return oneLine([]byte(name))
}

// consulName returns the name of the data for messages.
func (k key) consulName() string {
	if k.label == "" {
		return string(k.kind)
	}
	return fmt.Sprintf("%s(%s)", k.kind, k.label)
}

// remedy returns what to do about an error status, or "".
func (k key) remedy(status int) string {
	if status != http.StatusForbidden {
		return ""
	}
	switch k.kind {
	case health, snippets:
		return fmt.Sprintf(": the task's identity may not read services of namespace %q: attach a policy with read-job to the job, "+
			"with \"nomad acl policy apply -job\"", k.namespace)
	case required, optional, tree:
		return fmt.Sprintf(": the task's identity may not read variables below consul/ of namespace %q: attach a policy with "+
			"read and list of the path \"consul/*\" to the job, with \"nomad acl policy apply -job\". Tasks of a region without Consul "+
			"(server.services.consul) read those of their own namespace", k.namespace)
	}
	return ""
}
