package render

import (
	"fmt"
	"maps"
	"strings"
	"text/template/parse"
)

// Reasons for refusing a function.
const (
	unsafe        = "templates must not run programs or write files"
	ofHost        = "templates do not read the host's environment, interfaces or name resolution"
	needsNodeRead = "the identity of a task may not read nodes: the client needs a consul block, to read those of Consul"
	ofMesh        = "it belongs to Consul Connect: the client needs a consul block"
	ofConsul      = "partitions and peers are of Consul: the client needs a consul block"
)

// Reasons for refusing the functions of Vault.
const (
	NoVaultBlock  = "the task has no vault block: add one, which gives it a token of Vault"
	NoVaultClient = "the client has no enabled vault block in its configuration"
)

// refused holds the functions that no configuration can allow.
var refused = map[string]string{
	"plugin": unsafe, "writeToFile": unsafe,

	"sockaddr": ofHost, "expandenv": ofHost, "getHostByName": ofHost,
	"sprig_env": ofHost, "sprig_expandenv": ofHost, "sprig_getHostByName": ofHost,
}

// ofVault holds the functions that are refused where templates do not read Vault.
var ofVault = []string{"secret", "secrets", "pkiCert"}

// native holds the functions that are refused where templates do not read Consul.
var native = map[string]string{
	"node": needsNodeRead, "nodes": needsNodeRead,
	"connect": ofMesh, "caRoots": ofMesh, "caLeaf": ofMesh,
	"partitions": ofConsul, "peerings": ofConsul, "exportedServices": ofConsul,
}

// RefusedFunctions returns the functions that are always refused, with the reasons.
func RefusedFunctions() map[string]string { return maps.Clone(refused) }

// NativeRefusals returns the functions that are refused on a client without Consul, with the reasons.
func NativeRefusals() map[string]string { return maps.Clone(native) }

// VaultRefusals returns the functions that are refused where templates do not read Vault, with the reason.
func VaultRefusals(why string) map[string]string {
	m := map[string]string{}
	for _, name := range ofVault {
		m[name] = why
	}
	return m
}

// maxActions is the maximum number of actions in a template that CheckText parses. The parser is
// recursive, so they bound its memory.
const maxActions = 20000

// CheckText parses a template and returns an error if its syntax is wrong or it calls a function that
// is always refused. Unknown functions are not errors.
func CheckText(text, left, right string) error { return check(text, left, right, refused) }

// CheckNative returns an error if a template calls a function that is refused on a client without Consul.
func CheckNative(text, left, right string) error { return check(text, left, right, native) }

// CheckVault returns an error if a template calls a function that needs the vault block of the task.
func CheckVault(text, left, right string) error {
	return check(text, left, right, VaultRefusals(NoVaultBlock))
}

func check(text, left, right string, refused map[string]string) error {
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
		if err := (&scan{tree: tree, refused: refused}).list(tree.Root); err != nil {
			return err
		}
	}
	return nil
}
