package secret

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/hashicorp/vault/api"

	"github.com/open-nomad/open-nomad/internal/vault"
	"github.com/open-nomad/open-nomad/nomad"
)

// Token is the token of Vault of a task. The zero value is none.
type Token struct {
	Current  func() (secret, namespace string)
	Rejected func(ctx context.Context, secret string) bool // as that of the token manager
}

// mounts is the path that shows the type of the mount of a path. Every token may read it for paths that it may read.
const mounts = "sys/internal/ui/mounts/"

// vault reads a secret of the KV engine with the token of the task. A token that Vault has rejected is replaced once.
func (n *Node) vault(ctx context.Context, t *Task, s *nomad.Secret) (map[string]string, error) {
	if n.Vault == nil || t.Token.Current == nil {
		return nil, final{fmt.Errorf("secret %q: this client has no enabled vault block: add the block, "+
			"or constrain the job to nodes with attribute vault.version", s.Name)}
	}
	at, err := parsePath(s)
	if err != nil {
		return nil, final{err}
	}
	token, namespace := t.Token.Current()
	if token == "" {
		return nil, fmt.Errorf("cannot read %s: the task has no token of Vault yet", at)
	}
	found, err := read(ctx, n.Vault.Client(token, namespace), at)
	if hasStatus(err, http.StatusForbidden) && t.Token.Rejected(ctx, token) {
		found, err = read(ctx, n.Vault.Client(t.Token.Current()), at)
	}
	switch {
	case !at.v2 && (hasStatus(err, http.StatusForbidden, http.StatusBadRequest) || errors.As(err, new(*missing))) &&
		n.needsData(ctx, t, at):
		return nil, final{wrongEngine(at, "a secret of the KV engine, version 2", nomad.SecretEngineKV2)}
	case hasStatus(err, http.StatusForbidden):
		return nil, fmt.Errorf("cannot read %s: Vault denied the request: the policies of the task's token do not allow it, "+
			"or the token has ended: check the policies of the role in Vault", at)
	case err != nil && !errors.As(err, new(final)) && !errors.As(err, new(*missing)):
		return nil, fmt.Errorf("cannot read %s: %w", at, vault.Redact(err))
	}
	return found, err
}

// needsData reports whether a path lacks the "data/" of a KV engine of version 2. Vault denies or refuses such a
// request, or has nothing at the path.
func (n *Node) needsData(ctx context.Context, t *Task, at *location) bool {
	return dataPath(ctx, n.Vault.Client(t.Token.Current()), at.path) != at.path
}

// wrongEngine is the error for a block with the engine of another version.
func wrongEngine(at *location, what, engine string) error {
	return fmt.Errorf("secret %q: %s is %s: set engine = %q in its config block", at.name, at, what, engine)
}

// hasStatus reports whether Vault answered with one of the statuses.
func hasStatus(err error, list ...int) bool {
	var status *api.ResponseError
	return errors.As(err, &status) && slices.Contains(list, status.StatusCode)
}

// location is the path of a secret block.
type location struct {
	name  string // of the block
	path  string
	query url.Values // such as a version
	v2    bool
}

func (l *location) String() string { return "vault.read(" + l.path + ")" }

// parsePath reads the path of a block: a path of Vault with a query.
func parsePath(s *nomad.Secret) (*location, error) {
	text, query, _ := strings.Cut(s.Path, "?")
	values, err := url.ParseQuery(query)
	text = strings.Trim(text, "/")
	parts := strings.Split(text, "/")
	if err != nil || text == "" || slices.Contains(parts, ".") || slices.Contains(parts, "..") || slices.Contains(parts, "") {
		return nil, fmt.Errorf("secret %q: the path %q is not one of Vault", s.Name, s.Path)
	}
	return &location{name: s.Name, path: text, query: values, v2: s.ConfigText(nomad.SecretConfigEngine) == nomad.SecretEngineKV2}, nil
}

// read reads a secret once.
func read(ctx context.Context, client *api.Client, at *location) (map[string]string, error) {
	path := at.path
	if at.v2 {
		path = dataPath(ctx, client, path)
	}
	answer, err := client.Logical().ReadWithDataWithContext(ctx, path, at.query)
	if err != nil {
		return nil, err
	}
	if answer == nil || answer.Data == nil {
		return nil, &missing{at.String()}
	}
	items := answer.Data
	inner, nested := items["data"].(map[string]any)
	_, versioned := items["metadata"].(map[string]any)
	switch {
	case at.v2 && !nested && versioned: // deleted
		return nil, &missing{at.String()}
	case at.v2 && !nested:
		return nil, final{wrongEngine(at, "not a secret of the KV engine, version 2", nomad.SecretEngineKV)}
	case at.v2:
		items = inner
	case nested && versioned:
		return nil, final{wrongEngine(at, "a secret of the KV engine, version 2", nomad.SecretEngineKV2)}
	}
	return plain(items), nil
}

// dataPath returns the path of the data of a secret of the KV engine, version 2. Its mount shows where "data/" belongs.
// A path that has it, and one whose mount is unknown, stays as it is.
func dataPath(ctx context.Context, client *api.Client, path string) string {
	answer, err := client.Logical().ReadWithContext(ctx, mounts+path)
	if err != nil || answer == nil {
		return path
	}
	mount, _ := answer.Data["path"].(string)
	options, _ := answer.Data["options"].(map[string]any)
	rest, below := strings.CutPrefix(path, mount)
	if mount == "" || !below || options["version"] != "2" || ofEngine(rest) {
		return path
	}
	return mount + "data/" + rest
}

// ofEngine reports whether a path below a mount has the part that the API of the engine needs.
func ofEngine(path string) bool {
	first, _, below := strings.Cut(path, "/")
	return below && (first == "data" || first == "metadata" || first == "subkeys")
}

// plain returns values as text: a string as it is, others as JSON.
func plain(items map[string]any) map[string]string {
	out := make(map[string]string, len(items))
	for key, value := range items {
		if text, ok := value.(string); ok {
			out[key] = text
			continue
		}
		text, err := json.Marshal(value)
		if err != nil {
			panic("secret: bug: a decoded answer cannot be encoded: " + err.Error())
		}
		out[key] = string(text)
	}
	return out
}
