package render

import (
	"fmt"
	"strings"
	"text/template/parse"
)

// Reasons for refusing a function.
const (
	unsafe        = "templates must not run programs or write files"
	ofHost        = "templates do not read the host's environment, interfaces or name resolution"
	needsNodeRead = "it needs the right node:read, which the identity of a task does not have"
	ofMesh        = "it belongs to Consul Connect, which only Consul has"
	ofConsul      = "partitions and peers are of Consul, which this version has no integration for"
	needsVault    = "this version has no Vault integration"
)

// refused holds the functions that no configuration can allow.
var refused = map[string]string{
	"plugin": unsafe, "writeToFile": unsafe,

	"sockaddr": ofHost, "expandenv": ofHost, "getHostByName": ofHost,
	"sprig_env": ofHost, "sprig_expandenv": ofHost, "sprig_getHostByName": ofHost,

	"node": needsNodeRead, "nodes": needsNodeRead,
	"connect": ofMesh, "caRoots": ofMesh, "caLeaf": ofMesh,
	"partitions": ofConsul, "peerings": ofConsul, "exportedServices": ofConsul,

	"secret": needsVault, "secrets": needsVault, "pkiCert": needsVault,
}

// RefusedFunctions returns the functions that are always refused, with the reasons.
func RefusedFunctions() map[string]string {
	out := make(map[string]string, len(refused))
	for name, why := range refused {
		out[name] = why
	}
	return out
}

// maxActions is the maximum number of actions in a template that CheckText parses. The parser is
// recursive, so they bound its memory.
const maxActions = 20000

// CheckText parses a template and returns an error if its syntax is wrong or it calls a refused
// function. Unknown functions are not errors.
func CheckText(text, left, right string) error {
	if left == "" {
		left = "{{"
	}
	if right == "" {
		right = "}}"
	}
	if n := strings.Count(text, left); n > maxActions {
		return fmt.Errorf("the template has %d actions, at most %d are allowed", n, maxActions)
	}
	t := parse.New("template")
	t.Mode = parse.SkipFuncCheck
	trees := map[string]*parse.Tree{}
	if _, err := t.Parse(text, left, right, trees); err != nil {
		return fmt.Errorf("line %s", strings.TrimPrefix(err.Error(), "template: template:"))
	}
	trees[""] = t
	for _, tree := range trees {
		if tree.Root == nil {
			continue
		}
		if err := (&scan{tree: tree}).list(tree.Root); err != nil {
			return err
		}
	}
	return nil
}
