package search

import (
	"cmp"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Limits bound fuzzy searches, as the agent's server.search block.
type Limits struct {
	// Off rejects fuzzy searches.
	Off bool
	// Gathered is the maximum number of matches of one kind that are collected, Results the maximum
	// number returned for a context.
	Gathered, Results int
	// MinText is the minimum length of the search text.
	MinText int
}

// hit is a match, and the position of the text in its name.
type hit struct {
	message.FuzzyMatch
	at int
}

// hits are the matches, by context.
type hits struct {
	text      string
	limit     int
	found     map[message.Context][]hit
	truncated map[message.Context]bool
}

// add records a name if it contains the text.
func (h *hits) add(c message.Context, name string, scope ...string) {
	at := strings.Index(strings.ToLower(name), h.text)
	if at < 0 {
		return
	}
	if len(h.found[c]) >= h.limit {
		h.truncated[c] = true
		return
	}
	h.found[c] = append(h.found[c], hit{message.FuzzyMatch{ID: name, Scope: slices.Clone(scope)}, at})
}

// Fuzzy finds the names that contain a text, ignoring case. Matches near the start of a name come
// first, then short names.
func (f *Finder) Fuzzy(req *message.FuzzySearchRequest, l Limits, out *message.FuzzySearchResponse) error {
	switch {
	case l.Off:
		return apierror.Errorf(400, "fuzzy search is not enabled: server.search.fuzzy_enabled is false on this server")
	case len(req.Text) < l.MinText:
		return apierror.Errorf(400, "fuzzy search query must be at least %d characters, got %d", l.MinText, len(req.Text))
	}
	contexts, err := f.asked(req.Context, true)
	if err != nil {
		return err
	}
	h := &hits{text: strings.ToLower(req.Text), limit: l.Gathered, found: map[message.Context][]hit{}, truncated: map[message.Context]bool{}}
	wanted := map[message.Context]bool{}
	for _, c := range contexts {
		wanted[c] = true
		if s := sources[c]; s.byID {
			f.idsInto(h, c)
		} else if c != message.ContextJobs {
			f.namesInto(h, c)
		}
	}
	f.jobsInto(h, wanted)
	out.Matches, out.Truncations = map[message.Context][]message.FuzzyMatch{}, map[message.Context]bool{}
	for _, c := range contexts {
		out.Matches[c], out.Truncations[c] = h.best(c, l.Results)
	}
	return nil
}

// namesInto searches the names of a context.
func (f *Finder) namesInto(h *hits, c message.Context) {
	for t := range f.seen(c, "") {
		switch {
		case c == message.ContextVariables:
			h.add(c, t.name, t.namespace, t.id)
		case t.namespace != "":
			h.add(c, t.name, t.namespace, t.id)
		case t.id != t.name:
			h.add(c, t.name, t.id)
		default:
			h.add(c, t.name)
		}
	}
}

// idsInto searches for IDs that begin with the text, in contexts without names.
func (f *Finder) idsInto(h *hits, c message.Context) {
	for t := range f.seen(c, h.text) {
		h.add(c, t.id, t.namespace)
	}
}

// jobsInto searches jobs and their parts.
func (f *Finder) jobsInto(h *hits, wanted map[message.Context]bool) {
	add := func(c message.Context, name string, scope ...string) {
		if wanted[c] {
			h.add(c, name, scope...)
		}
	}
	if !wanted[message.ContextJobs] && !slices.ContainsFunc(parts, func(c message.Context) bool { return wanted[c] }) {
		return
	}
	for j := range f.Snapshot.Jobs(f.Watch) {
		if f.Namespace != nomad.AllNamespacesSentinel && j.Namespace != f.Namespace ||
			!f.Access.Allows(acl.InNamespace(j.Namespace, acl.ReadJob)) {
			continue
		}
		add(message.ContextJobs, j.Name, j.Namespace, j.ID)
		for _, g := range j.TaskGroups {
			add(message.ContextGroups, g.Name, j.Namespace, j.ID)
			for _, s := range g.Services {
				add(message.ContextServices, s.Name, j.Namespace, j.ID, g.Name)
			}
			for _, t := range g.Tasks {
				tasks(add, t, j.Namespace, j.ID, g.Name)
			}
		}
	}
}

func tasks(add func(message.Context, string, ...string), t *nomad.Task, scope ...string) {
	add(message.ContextTasks, t.Name, scope...)
	scope = append(scope, t.Name)
	for _, s := range t.Services {
		add(message.ContextServices, s.Name, scope...)
	}
	for c, key := range map[message.Context]string{message.ContextImages: "image", message.ContextCommands: "command",
		message.ContextClasses: "class"} {
		if text, ok := t.Config[key].(string); ok {
			add(c, text, scope...)
		}
	}
}

// best returns the matches to return, and whether there are more.
func (h *hits) best(c message.Context, most int) ([]message.FuzzyMatch, bool) {
	found := h.found[c]
	slices.SortStableFunc(found, func(a, b hit) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(len(a.ID), len(b.ID)), strings.Compare(a.ID, b.ID), slices.Compare(a.Scope, b.Scope))
	})
	truncated := h.truncated[c] || len(found) > most
	out := make([]message.FuzzyMatch, 0, min(len(found), most))
	for _, f := range found[:min(len(found), most)] {
		out = append(out, f.FuzzyMatch)
	}
	return out, truncated
}
