package images

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/registry"

	"github.com/open-nomad/open-nomad/drivers/docker/config"
)

// encode returns the credentials as the daemon wants them, "" for none.
func encode(c *config.Credentials) (string, error) {
	if c == nil || c.Username == "" && c.Secret == "" {
		return "", nil
	}
	return authconfig.Encode(registry.AuthConfig{Username: c.Username, Password: c.Secret, ServerAddress: c.Server})
}

// Names of the registry that images without one come from.
const (
	hub      = "docker.io"
	hubEntry = "https://index.docker.io/v1/"
)

// credentialsOf returns those for a task's image: of the task, of the configuration's file, or of its
// helper. It returns nil for none.
func credentialsOf(ctx context.Context, s *config.Plugin, o *config.Task) (*config.Credentials, error) {
	if o.Auth != nil && (o.Auth.Username != "" || o.Auth.Secret != "") {
		return o.Auth, nil
	}
	ref, err := reference.ParseNormalizedNamed(o.Image)
	if err != nil {
		return nil, err
	}
	host := reference.Domain(ref)
	found, err := fromFile(ctx, s, host)
	if err == nil && found == nil && s.AuthHelper != "" {
		found, err = fromHelper(ctx, s, s.AuthHelper, host)
	}
	if err != nil {
		//lint:ignore ST1005 the text is that of Nomad
		return nil, fmt.Errorf("Failed to find docker auth for repo %q: %w", reference.FamiliarName(ref), err)
	}
	return found, nil
}

// dockerConfig is the part of Docker's config.json about registries.
type dockerConfig struct {
	Auths map[string]struct {
		Auth     string `json:"auth"`
		Username string `json:"username"`
		Password string `json:"password"`
	} `json:"auths"`
	CredHelpers map[string]string `json:"credHelpers"`
	CredsStore  string            `json:"credsStore"`
}

// maxAuthFile limits the size of a config.json.
const maxAuthFile = 1 << 20

// fromFile looks a registry up in auth.config: its entry, its helper, and the store.
func fromFile(ctx context.Context, s *config.Plugin, host string) (*config.Credentials, error) {
	name := s.AuthFile
	if name == "" {
		return nil, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read auth.config: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	var c dockerConfig
	if json.NewDecoder(io.LimitReader(f, maxAuthFile)).Decode(&c) != nil { // the error may quote the file
		return nil, fmt.Errorf("auth.config %s is not JSON", name)
	}
	key := host
	if host == hub {
		key = hubEntry
	}
	for registry, entry := range c.Auths {
		if registry != key && bareHost(registry) != bareHost(key) {
			continue
		}
		if entry.Username != "" || entry.Password != "" {
			return &config.Credentials{Username: entry.Username, Secret: entry.Password}, nil
		}
		if entry.Auth != "" {
			return decodeAuth(entry.Auth)
		}
	}
	if helper := c.CredHelpers[host]; helper != "" {
		return fromHelper(ctx, s, helper, host)
	}
	if c.CredsStore != "" {
		return fromHelper(ctx, s, c.CredsStore, key)
	}
	return nil, nil
}

// bareHost returns a key of config.json without its scheme and path.
func bareHost(key string) string {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	host, _, _ := strings.Cut(key, "/")
	return host
}

// decodeAuth decodes the base64 form of user:password.
func decodeAuth(text string) (*config.Credentials, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	user, secret, ok := strings.Cut(string(raw), ":")
	if err != nil || !ok {
		return nil, errors.New("an auth value of auth.config is not base64 of user:password")
	}
	return &config.Credentials{Username: user, Secret: strings.TrimRight(secret, "\x00")}, nil
}
