package engine

import (
	"cmp"
	"errors"
	"maps"
	"text/template"

	"github.com/hashicorp/consul-template/dependency"

	"github.com/open-nomad/open-nomad/internal/render"
)

// ownErrors holds the functions whose errors contain no values.
var ownErrors = map[string]bool{
	"nomadVar": true, "nomadVarExists": true, "nomadVarList": true, "nomadVarListSafe": true, "file": true,
	"nomadService": true, "nomadServices": true,
	"service": true, "services": true, "datacenters": true, "key": true, "keyExists": true, "keyExistsGet": true,
	"keyOrDefault": true, "ls": true, "safeLs": true, "tree": true, "safeTree": true,
	"secret": true, "secrets": true, "pkiCert": true,
	"mustEnv": true, // only the name
}

// ofConsul holds the functions of the library that read Consul. The messages of their errors contain the argument.
var ofConsul = map[string]bool{
	"service": true, "services": true, "connect": true, "node": true, "nodes": true, "datacenters": true, "caRoots": true, "caLeaf": true,
	"partitions": true, "peerings": true, "exportedServices": true,
	"key": true, "keyExists": true, "keyExistsGet": true, "keyOrDefault": true, "ls": true, "safeLs": true, "tree": true, "safeTree": true,
}

// functions returns the functions that replace those of the library: the ones that read data, and
// the refused ones.
func (e *engine) functions() template.FuncMap {
	m := template.FuncMap{
		"nomadVar":         e.nomadVar,
		"nomadVarExists":   e.nomadVarExists,
		"nomadVarList":     e.nomadVarList,
		"nomadVarListSafe": e.nomadVarListSafe,
		"file":             e.file,
		"nomadService":     e.nomadService,
		"nomadServices":    e.nomadServices,
	}
	if e.consul != nil {
		m["keyExistsGet"] = e.pairOfConsul // the library does not have it
	} else {
		maps.Copy(m, e.nativeFunctions())
	}
	if e.vault != nil {
		maps.Copy(m, e.vaultFunctions())
	}
	for name, why := range e.refusals() {
		m[name] = func(...any) (string, error) { return "", errors.New("the function is refused: " + why) }
	}
	return m
}

// refusals returns the refused functions with the reasons.
func (e *engine) refusals() map[string]string {
	m := render.RefusedFunctions()
	if e.consul == nil {
		maps.Copy(m, render.NativeRefusals())
	}
	if e.vault == nil {
		maps.Copy(m, render.VaultRefusals(cmp.Or(e.req.NoVault, render.NoVaultClient)))
	}
	return m
}

// nativeFunctions returns the functions of Consul that read native services and variables.
func (e *engine) nativeFunctions() template.FuncMap {
	return template.FuncMap{
		"service":      e.service,
		"services":     e.servicesOfConsul,
		"datacenters":  e.datacenters,
		"key":          e.keyValue,
		"keyExists":    e.keyExists,
		"keyExistsGet": e.keyExistsGet,
		"keyOrDefault": e.keyOrDefault,
		"ls":           e.levelOf(false),
		"safeLs":       e.levelOf(true),
		"tree":         e.pairsOf(false),
		"safeTree":     e.pairsOf(true),
	}
}

// ask records that the template uses the data, and returns it. If it has not been read yet, it counts as missing, and the
// result is nil.
func (e *engine) ask(k key) *datum {
	e.evaluated.use(k)
	if d := e.data[k]; d != nil && d.known {
		return d
	}
	e.evaluated.lacks(k)
	return nil
}

// nomadVar returns the items of a variable. While the variable does not exist, the template is
// not rendered.
func (e *engine) nomadVar(path string) (*dependency.NomadVarItems, error) {
	if path == "" {
		return nil, nil
	}
	k, err := variableKey(e.req, variable, path)
	if err != nil {
		return nil, err
	}
	e.evaluated.use(k)
	if d := e.data[k]; d != nil && d.items != nil {
		return d.items, nil
	}
	e.evaluated.lacks(k)
	return nil, nil
}

// nomadVarExists reports whether a variable exists.
func (e *engine) nomadVarExists(path string) (bool, error) {
	if path == "" {
		return false, nil
	}
	k, err := variableKey(e.req, existence, path)
	if err != nil {
		return false, err
	}
	e.evaluated.use(k)
	if d := e.data[k]; d != nil && d.known {
		return d.items != nil, nil
	}
	e.evaluated.lacks(k)
	return false, nil
}

// nomadVarList returns the variables below a prefix.
func (e *engine) nomadVarList(prefix ...string) ([]*dependency.NomadVarMeta, error) {
	return e.variables(prefix, false)
}

// nomadVarListSafe is nomadVarList, but an empty list counts as missing data.
func (e *engine) nomadVarListSafe(prefix ...string) ([]*dependency.NomadVarMeta, error) {
	return e.variables(prefix, true)
}

func (e *engine) variables(prefix []string, needsSome bool) ([]*dependency.NomadVarMeta, error) {
	if len(prefix) > 1 {
		return nil, errors.New("more than one prefix")
	}
	arg := ""
	if len(prefix) == 1 {
		arg = prefix[0]
	}
	k, err := listKey(e.req, arg)
	if err != nil {
		return nil, err
	}
	e.evaluated.use(k)
	d := e.data[k]
	if d == nil || !d.known || needsSome && len(d.list) == 0 {
		e.evaluated.lacks(k)
		return []*dependency.NomadVarMeta{}, nil
	}
	return d.list, nil
}

// file returns the content of a file in the directories of the request. The first read is part
// of the evaluation, so a file that does not exist is an error.
func (e *engine) file(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	k := key{kind: file, path: name}
	e.evaluated.use(k)
	d := e.data[k]
	if d == nil {
		d = &datum{}
		if err := d.readFile(e.files, name); err != nil {
			return "", err
		}
		e.data[k] = d
	}
	return d.text, nil
}
