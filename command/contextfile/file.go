// Package contextfile reads and edits the file that holds the contexts of the command line:
// the addresses, namespaces and credentials of several clusters, under names.
//
//	current = "prod"
//
//	context "prod" {
//	  address       = "https://nomad.example.com:4646"
//	  namespace     = "shop"
//	  ca_cert       = "prod-ca.pem"
//	  token_command = ["pass", "show", "nomad/prod"]
//	}
//
// The file has no secrets: a token comes from another file or from a command. The file must belong
// to the user and have mode 0600, because whoever can write it can run commands as the user. Paths
// are relative to the directory of the file. An edit keeps comments, holds a lock on the directory,
// and replaces the file atomically.
package contextfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/hashicorp/hcl/v2/hclsimple"

	"github.com/open-nomad/open-nomad/internal/pattern"
)

// maxSize is the maximum size of the file, and of a token file, in bytes.
const maxSize = 1 << 20

// File is the content of the file. The zero value is an empty file.
type File struct {
	// Current is the name of the context that commands use by default, or "".
	Current  string     `hcl:"current,optional"`
	Contexts []*Context `hcl:"context,block"`
}

// Context holds the connection to one cluster. Empty fields mean the defaults of the commands.
type Context struct {
	Name          string   `hcl:"name,label"`
	Address       string   `hcl:"address"`
	Region        string   `hcl:"region,optional"`
	Namespace     string   `hcl:"namespace,optional"`
	CACert        string   `hcl:"ca_cert,optional"`
	CAPath        string   `hcl:"ca_path,optional"`
	ClientCert    string   `hcl:"client_cert,optional"`
	ClientKey     string   `hcl:"client_key,optional"`
	TLSServerName string   `hcl:"tls_server_name,optional"`
	TokenFile     string   `hcl:"token_file,optional"`
	TokenCommand  []string `hcl:"token_command,optional"`
}

// Path returns the path of the file from the environment variables NOMAD_CONTEXTS,
// XDG_CONFIG_HOME and HOME. It is "" without any of them.
func Path(env func(string) string) string {
	if path := env("NOMAD_CONTEXTS"); path != "" {
		return path
	}
	dir := env("XDG_CONFIG_HOME")
	if home := env("HOME"); dir == "" && home != "" {
		dir = filepath.Join(home, ".config")
	}
	if !filepath.IsAbs(dir) {
		return ""
	}
	return filepath.Join(dir, "open-nomad", "contexts.hcl")
}

// Load reads and checks the file. A file that does not exist is empty.
func Load(path string) (*File, error) {
	if path == "" {
		return &File{}, nil
	}
	text, err := readPrivate(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &File{}, nil
	case err != nil:
		return nil, fmt.Errorf("read contexts: %w", err)
	}
	return parse(path, text)
}

// parse decodes and checks the text of the file.
func parse(path string, text []byte) (*File, error) {
	f := &File{}
	if err := hclsimple.Decode(path+".hcl", text, nil, f); err != nil { // the suffix selects the syntax
		return nil, fmt.Errorf("read contexts: %s", strings.ReplaceAll(err.Error(), path+".hcl", path))
	}
	seen := map[string]bool{}
	for _, c := range f.Contexts {
		if seen[c.Name] {
			return nil, fmt.Errorf("%s: duplicate context %q", path, c.Name)
		}
		seen[c.Name] = true
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("%s: context %q: %w", path, c.Name, err)
		}
		c.resolve(filepath.Dir(path))
	}
	if f.Current != "" && !seen[f.Current] {
		return nil, fmt.Errorf("%s: current is %q, which is not a context of the file: use one of %s", path, f.Current, f.names())
	}
	return f, nil
}

var validName = pattern.Lazy(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// check validates a context.
func (c *Context) check() error {
	u, err := url.Parse(c.Address)
	switch {
	case !validName().MatchString(c.Name):
		return fmt.Errorf("invalid name %q: use up to 64 letters, digits, dots, dashes and underscores", c.Name)
	case err != nil: // the error of url.Parse has the address, and so perhaps a password
		return errors.New("address: not a URL: use http(s)://host:port or unix:///path")
	case u.User != nil:
		return errors.New("address: must not have a user name or password")
	case u.Scheme == "unix" && u.Path == "", u.Scheme != "unix" && u.Host == "", u.Scheme != "http" && u.Scheme != "https" &&
		u.Scheme != "unix":
		return fmt.Errorf("address: invalid address %q: use http(s)://host:port or unix:///path", c.Address)
	case c.TokenFile != "" && len(c.TokenCommand) > 0:
		return errors.New("token_file and token_command are mutually exclusive: remove one")
	case len(c.TokenCommand) > 0 && c.TokenCommand[0] == "":
		return errors.New("token_command: the name of the program is empty")
	case (c.ClientCert == "") != (c.ClientKey == ""):
		return errors.New("client_cert and client_key belong together: set both or none")
	}
	return nil
}

// resolve makes the paths absolute: relative ones are relative to dir. The program of a token is a path if it
// has a slash; other names are searched in PATH.
func (c *Context) resolve(dir string) {
	for _, p := range []*string{&c.CACert, &c.CAPath, &c.ClientCert, &c.ClientKey, &c.TokenFile} {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
	if len(c.TokenCommand) > 0 && strings.Contains(c.TokenCommand[0], "/") && !filepath.IsAbs(c.TokenCommand[0]) {
		c.TokenCommand[0] = filepath.Join(dir, c.TokenCommand[0])
	}
}

// Context returns the context with a name. The empty name means the current context, which
// is nil if there is none.
func (f *File) Context(name string) (*Context, error) {
	if name == "" {
		name = f.Current
	}
	if name == "" {
		return nil, nil
	}
	for _, c := range f.Contexts {
		if c.Name == name {
			return c, nil
		}
	}
	return nil, fmt.Errorf("no context %q: use one of %s, or add it with 'nomad context set'", name, f.names())
}

// names lists the names for an error.
func (f *File) names() string {
	if len(f.Contexts) == 0 {
		return "(no context is defined)"
	}
	var out []string
	for _, c := range f.Contexts {
		out = append(out, c.Name)
	}
	return strings.Join(out, ", ")
}

// readPrivate reads a file that only the user may read and write.
func readPrivate(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s has mode %04o, so others can use it: run chmod 600 %s", path, info.Mode().Perm(), path)
	case int(owner) != os.Geteuid():
		return nil, fmt.Errorf("%s belongs to the user ID %d, not to yours, %d: change the owner, or name another file", path, owner,
			os.Geteuid())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err == nil && len(text) > maxSize {
		err = fmt.Errorf("%s is larger than 1 MiB", path)
	}
	return text, err
}
