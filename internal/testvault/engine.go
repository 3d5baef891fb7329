package testvault

import (
	"crypto/rand"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// mount is a mounted engine.
type mount struct {
	kind     string // kv or pki
	version  int    // of kv
	accessor string
	secrets  map[string]*secret // of kv, by path below the mount
	ca       *authority         // of pki
}

// secret is a secret of an engine of kind kv. Version 1 has a single version.
type secret struct {
	versions []version
}

type version struct {
	data             map[string]any
	created, deleted time.Time
}

func newMount(kind string, v int) *mount {
	m := &mount{kind: kind, version: v, accessor: kind + "_" + rand.Text()[:8], secrets: map[string]*secret{}}
	if kind == "pki" {
		m.ca = newAuthority()
	}
	return m
}

func (m *mount) options() map[string]string {
	if m.kind != "kv" {
		return nil
	}
	return map[string]string{"version": strconv.Itoa(m.version)}
}

// mountOf returns the mount of a path, and where it is mounted. The caller holds mu.
func (v *Vault) mountOf(path string) (at string, m *mount) {
	for prefix, candidate := range v.mounts {
		if strings.HasPrefix(path+"/", prefix) && len(prefix) > len(at) {
			at, m = prefix, candidate
		}
	}
	return at, m
}

// enableMount serves the creation of a mount.
func enableMount(c *call) (*answer, error) {
	var in struct {
		Type, Description     string
		Config                map[string]any
		Options               map[string]string
		Local                 bool
		SealWrap              bool `json:"seal_wrap"`
		ExternalEntropyAccess bool `json:"external_entropy_access"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	path := strings.Trim(c.PathValue("path"), "/") + "/"
	if c.v.mounts[path] != nil {
		return nil, c.invalid("path is already in use at %s", path)
	}
	switch {
	case in.Type == "kv-v2", in.Type == "kv" && in.Options["version"] == "2":
		c.v.mounts[path] = newMount("kv", 2)
	case in.Type == "kv":
		c.v.mounts[path] = newMount("kv", 1)
	case in.Type == "pki":
		c.v.mounts[path] = newMount("pki", 0)
	default:
		return nil, c.invalid("mount type %q is not supported", in.Type)
	}
	return nil, nil
}

// engine serves the paths of mounted engines, and those with leases.
func engine(c *call) (*answer, error) {
	if d, ok := c.v.dynamic[c.path]; ok && c.Method == http.MethodGet {
		return c.lease(d)
	}
	at, m := c.v.mountOf(c.path)
	if m == nil {
		c.fault("unexpected call")
		return nil, refuse(http.StatusNotFound, "no handler for route %q. route entry not found.", c.path)
	}
	rest := strings.TrimPrefix(strings.TrimSuffix(c.path, "/")+"/", at)
	rest = strings.TrimSuffix(rest, "/")
	switch {
	case m.kind == "pki":
		return c.pki(m, rest)
	case m.version == 1:
		return c.kv1(m, rest)
	}
	return c.kv2(m, rest)
}

// below returns the names below a path, where a folder has a slash at its end.
func (m *mount) below(path string) []string {
	if path != "" {
		path += "/"
	}
	names := map[string]bool{}
	for p := range m.secrets {
		if rest, ok := strings.CutPrefix(p, path); ok {
			name, _, folder := strings.Cut(rest, "/")
			if folder {
				name += "/"
			}
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func (c *call) kv1(m *mount, path string) (*answer, error) {
	switch {
	case c.lists():
		return c.keys(m.below(path))
	case c.Method == http.MethodGet:
		s := m.secrets[path]
		if s == nil {
			return nil, missing
		}
		return &answer{Data: s.versions[0].data, LeaseDuration: int(defaultTTL / time.Second), MountType: "kv"}, nil
	case c.Method == http.MethodDelete:
		delete(m.secrets, path)
		return nil, nil
	}
	data := map[string]any{}
	if err := c.decode(&data); err != nil {
		return nil, err
	}
	m.secrets[path] = &secret{[]version{{data: data, created: c.v.now()}}}
	return nil, nil
}

func (c *call) kv2(m *mount, path string) (*answer, error) {
	kind, path, _ := strings.Cut(path, "/")
	switch {
	case kind == "metadata" && c.lists():
		return c.keys(m.below(path))
	case kind == "metadata" && c.Method == http.MethodDelete:
		delete(m.secrets, path)
		return nil, nil
	case kind != "data" || c.lists():
		return nil, c.invalid("invalid path for a versioned K/V secrets engine")
	case c.Method == http.MethodGet:
		return c.readVersion(m.secrets[path])
	}
	s := m.secrets[path]
	if c.Method == http.MethodDelete {
		if s != nil {
			s.versions[len(s.versions)-1].deleted = c.v.now()
		}
		return nil, nil
	}
	var in struct {
		Data    map[string]any
		Options map[string]any
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if in.Data == nil || len(in.Options) > 0 {
		return nil, c.invalid("no data provided, or options that the stand-in does not support")
	}
	if s == nil {
		s = &secret{}
		m.secrets[path] = s
	}
	s.versions = append(s.versions, version{data: in.Data, created: c.v.now()})
	return &answer{Data: metadata(s, len(s.versions)), MountType: "kv"}, nil
}

// readVersion serves the version of the query, or the last one.
func (c *call) readVersion(s *secret) (*answer, error) {
	if s == nil {
		return nil, missing
	}
	n := len(s.versions)
	if text := c.URL.Query().Get("version"); text != "" && text != "0" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			return nil, c.invalid("version %q", text)
		}
	}
	if n < 1 || n > len(s.versions) {
		return nil, missing
	}
	out := &answer{Data: map[string]any{"data": s.versions[n-1].data, "metadata": metadata(s, n)}, MountType: "kv"}
	if !s.versions[n-1].deleted.IsZero() {
		out.Data = map[string]any{"data": nil, "metadata": metadata(s, n)}
		return &answer{plain: out, status: http.StatusNotFound}, nil
	}
	return out, nil
}

func metadata(s *secret, n int) map[string]any {
	v := s.versions[n-1]
	deleted := ""
	if !v.deleted.IsZero() {
		deleted = v.deleted.UTC().Format(time.RFC3339Nano)
	}
	return map[string]any{"created_time": v.created.UTC().Format(time.RFC3339Nano), "deletion_time": deleted, "destroyed": false,
		"version": n, "custom_metadata": nil}
}

// Dynamic is a path whose secrets have leases.
type Dynamic struct {
	TTL       time.Duration
	Max       time.Duration // of a renewed lease; 0: no limit
	Renewable bool
}

// lease is one secret of a Dynamic.
type lease struct {
	owner         string // the ID of the token
	d             Dynamic
	created, ends time.Time
}

// Dynamic makes a path such as "database/creds/app" return new credentials, each with a lease.
func (v *Vault) Dynamic(path string, d Dynamic) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.dynamic[path] = d
	at, _, _ := strings.Cut(path, "/")
	if v.mounts[at+"/"] == nil {
		v.mounts[at+"/"] = newMount("database", 0)
	}
}

// lease returns new credentials.
func (c *call) lease(d Dynamic) (*answer, error) {
	l := &lease{owner: c.who.id, d: d, created: c.v.now(), ends: c.v.now().Add(d.TTL)}
	if !c.who.ends.IsZero() && l.ends.After(c.who.ends) {
		l.ends = c.who.ends
	}
	id := c.path + "/" + rand.Text()
	c.v.leases[id] = l
	return &answer{LeaseID: id, LeaseDuration: c.v.left(l.ends), Renewable: d.Renewable,
		Data: map[string]any{"username": "u-" + rand.Text()[:8], "password": rand.Text()}}, nil
}

func renewLease(c *call) (*answer, error) {
	var in struct {
		ID        string `json:"lease_id"`
		Increment seconds
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	l := c.v.leases[in.ID]
	switch {
	case l == nil:
		return nil, c.invalid("lease not found")
	case !l.d.Renewable:
		return nil, c.invalid("lease is not renewable")
	}
	ttl := l.d.TTL
	if in.Increment > 0 {
		ttl = time.Duration(in.Increment)
	}
	l.ends = c.v.now().Add(ttl)
	if limit := l.created.Add(l.d.Max); l.d.Max > 0 && l.ends.After(limit) {
		l.ends = limit
	}
	return &answer{LeaseID: in.ID, LeaseDuration: c.v.left(l.ends), Renewable: true}, nil
}

func revokeLease(c *call) (*answer, error) {
	var in struct {
		ID string `json:"lease_id"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if c.v.leases[in.ID] == nil {
		return nil, c.invalid("invalid lease ID")
	}
	delete(c.v.leases, in.ID)
	return nil, nil
}
