package engine

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/consul-template/dependency"

	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/internal/render"
)

// kind is a kind of data.
type kind string

// The kinds of data, as they appear in names.
const (
	variable  kind = "nomad.var.block" // exists before the template is rendered
	existence kind = "nomad.var.get"   // may not exist
	listing   kind = "nomad.var.list"
	service   kind = "nomad.service"
	catalog   kind = "nomad.services"
	file      kind = "file"

	// As consul-template names the data of Consul. Services and variables have it here.
	health   kind = "health.service"
	snippets kind = "catalog.services"
	required kind = "kv.block" // exists before the template is rendered
	optional kind = "kv.get"   // may not exist
	tree     kind = "kv.list"

	// remote is data of Consul itself. path is its name, as consul-template writes it.
	remote kind = "consul"

	// ofVault is data of Vault. path is its name, as consul-template writes it, and tag identifies the query.
	ofVault kind = "vault"
)

// key identifies a piece of data.
type key struct {
	kind      kind
	path      string // or prefix, or name of a file or service
	namespace string
	region    string
	tag       string // of a service; "" for any
	choose    string // of a service: <count>|<key>; "" for all registrations
	consul           // of the kinds of Consul
}

// consul holds the parts of an argument that only the functions of Consul have.
type consul struct {
	label      string // the argument in messages, as consul-template writes it
	prefix     string // of a tree: the beginning of its keys; path has its encoding
	datacenter string // of a service; "" for any
	statuses   string // of a service, separated by commas
	nearest    string // of a service: the ID of the node whose instances come first, or ""
}

// String returns the name of the data, as consul-template writes it.
func (k key) String() string {
	switch k.kind {
	case remote, ofVault:
		return oneLine([]byte(k.path))
	case file:
		return fmt.Sprintf("file(%s)", k.path)
	case service, catalog:
		return k.serviceName()
	case health, snippets, required, optional, tree:
		return k.consulName()
	}
	return fmt.Sprintf("%s(%s@%s.%s)", k.kind, k.path, k.namespace, k.region)
}

// variablePath matches the paths that variables can have.
var variablePath = pattern.Lazy(`^[a-zA-Z0-9-_~/]{1,128}$`)

// errPath omits the path, which can be made of secret values.
var errPath = errors.New("malformed path: want path, path@namespace or path@namespace.region")

// variableKey parses the argument of nomadVar and nomadVarExists.
func variableKey(req *render.Request, kind kind, arg string) (key, error) {
	arg = strings.Trim(strings.TrimSpace(arg), "/")
	k, ok := newKey(req, kind).parse(dependency.NVGetQueryRe, "path", arg)
	if !ok || !variablePath().MatchString(k.path) {
		return key{}, errPath
	}
	return k, nil
}

// listKey parses the argument of nomadVarList.
func listKey(req *render.Request, arg string) (key, error) {
	k, ok := newKey(req, listing).parse(dependency.NVListQueryRe, "prefix", arg)
	if !ok {
		return key{}, errPath
	}
	if strings.Trim(k.path, "/") == "" {
		k.path = ""
	}
	return k, nil
}

// newKey returns a key of the region and the namespace of the task.
func newKey(req *render.Request, kind kind) key {
	return key{kind: kind, namespace: req.Namespace, region: req.Region}
}

// parse sets the parts of an argument that matches a pattern of the library.
func (k key) parse(pattern *regexp.Regexp, path, arg string) (key, bool) {
	match := pattern.FindStringSubmatch(arg)
	if match == nil {
		return key{}, false
	}
	for i, name := range pattern.SubexpNames() {
		switch value := match[i]; {
		case value == "":
		case name == path && path != "":
			k.path = value
		case name == "namespace":
			k.namespace = value
		case name == "region":
			k.region = value
		case name == "tag":
			k.tag = value
		}
	}
	return k, true
}
