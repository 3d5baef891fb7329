package engine

import (
	"errors"
	"strings"
	"text/template"

	"github.com/hashicorp/consul-template/dependency"
)

var (
	// errVaultPath omits the path, which can be made of secret values.
	errVaultPath = errors.New("malformed path: want the path of a secret, such as secret/app/db")
	// errPair omits the argument, which can be a secret value.
	errPair = errors.New("an argument after the path is not a pair: want name=value")
)

// vaultFunctions returns the functions of Vault. Those of the library have the same results.
func (e *engine) vaultFunctions() template.FuncMap {
	return template.FuncMap{"secret": e.secret, "secrets": e.secrets, "pkiCert": e.pkiCert}
}

// secret reads a secret, or writes the pairs and returns the answer.
func (e *engine) secret(args ...string) (any, error) {
	if len(args) == 0 || args[0] == "" {
		return nil, nil
	}
	data, err := pairs(args[1:])
	if err != nil {
		return nil, err
	}
	q := &vaultQuery{read: args[0]}
	q.query = func() (dependency.Dependency, error) { return dependency.NewVaultReadQuery(args[0]) }
	if len(args) > 1 {
		q.read = ""
		q.query = func() (dependency.Dependency, error) { return dependency.NewVaultWriteQuery(args[0], data) }
	}
	return e.askVault(args[0], data, q)
}

// secrets returns the names below a path, sorted.
func (e *engine) secrets(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	q := &vaultQuery{query: func() (dependency.Dependency, error) { return dependency.NewVaultListQuery(path) }}
	value, err := e.askVault(path, nil, q)
	list, _ := value.([]string) // nil if it was not read yet
	return list, err
}

// pkiCert issues a certificate, or returns the one in the file of the template.
func (e *engine) pkiCert(args ...string) (any, error) {
	if len(args) == 0 || args[0] == "" {
		return nil, nil
	}
	data, err := pairs(args[1:])
	if err != nil {
		return nil, err
	}
	path, spec := args[0], e.evaluated.spec
	q := &vaultQuery{query: func() (dependency.Dependency, error) { return dependency.NewVaultPKIQuery(path, "", data) }}
	if spec.Kept {
		// An endpoint that issues a certificate also makes its key, and one that signs a request does not.
		q.file, q.keyed = spec.Destination, strings.Contains(path, "/issue/")
	}
	named := func() (dependency.Dependency, error) {
		return dependency.NewVaultPKIQuery(path, spec.Destination, data)
	}
	return e.askVaultAs(named, path+"\x00"+spec.Destination, data, q)
}

// askVault returns the data of a query. If it has not been read yet, it counts as missing, and the result is nil.
func (e *engine) askVault(path string, data map[string]any, q *vaultQuery) (any, error) {
	return e.askVaultAs(q.query, path, data, q)
}

// askVaultAs is askVault for data that events show with the name of another query.
func (e *engine) askVaultAs(
	named func() (dependency.Dependency, error), path string, data map[string]any, q *vaultQuery,
) (any, error) {
	d, err := named()
	if err != nil {
		return nil, errVaultPath
	}
	if got := e.ask(e.vault.keyOf(d.String(), path, data, q)); got != nil {
		return got.remote, nil
	}
	return nil, nil
}

// pairs parses name=value arguments. Empty ones are left out, as by the library.
func pairs(args []string) (map[string]any, error) {
	data := map[string]any{}
	for _, arg := range args {
		if arg == "" {
			continue
		}
		name, value, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, errPair
		}
		data[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return data, nil
}
