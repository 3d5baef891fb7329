package taskenv

import (
	"slices"
	"strings"
	"unicode"
)

// maxInsertedName limits the bytes that references insert in an environment for names.
const maxInsertedName = 1 << 20

// Names interpolates the names of the services of a task or group for their identities. The client requests an identity with
// the name, and the servers verify it. Both compute it here, from the allocation and the registration of the node.
type Names struct {
	subject Subject
	full    *Env // nil before its first use
	noNode  *Env // without the node, nil before its first use
}

// NewNames returns the Names of a subject. Its network is ignored, since servers do not have it in time. The node may be nil
// for Fixed and References.
func NewNames(s Subject) *Names {
	s.Network = nil
	return &Names{subject: s}
}

// Name returns the interpolated name of a service.
func (n *Names) Name(name string) string {
	if !strings.Contains(name, "${") {
		return name
	}
	if n.full == nil {
		n.full = n.build(n.subject)
	}
	return n.full.Expand(name)
}

// build builds an environment. Servers do so for each task of a job, with a lower limit than that of a task.
func (n *Names) build(s Subject) *Env {
	b := New(s)
	b.most = maxInsertedName
	return b.Build()
}

// Allows reports whether a node may interpolate the name of a service to another name. That is Name, except that references
// to what only the client has, such as variables from its templates, may have any value. Such a name needs fixed text.
func (n *Names) Allows(name, to string) bool {
	if !strings.Contains(name, "${") {
		return to == name
	}
	texts, refs := n.split(name)
	parts := []string{texts[0]}
	for i, ref := range refs {
		if OfNode(ref) {
			parts[len(parts)-1] += n.Name("${"+ref+"}") + texts[i+1]
		} else {
			parts = append(parts, texts[i+1])
		}
	}
	if len(parts) == 1 {
		return to == n.Name(name)
	}
	return n.Fixed(name) && fits(to, parts)
}

// Fixed reports whether a part of the name, with a letter or a digit, is not chosen by the node.
func (n *Names) Fixed(name string) bool {
	texts, refs := n.split(name)
	return slices.Contains(refs, "node.unique.id") ||
		strings.ContainsFunc(strings.Join(texts, ""), func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
}

// References returns the references in a name that depend on the node or on what only the client has.
func (n *Names) References(name string) []string {
	_, refs := n.split(name)
	return refs
}

// split interpolates a name without the node, and splits it at the remaining references. There is one more text than
// references. A reference whose value exceeds the limits is text.
func (n *Names) split(name string) (texts, refs []string) {
	if n.noNode == nil {
		s := n.subject
		s.Node = nil
		n.noNode = n.build(s)
	}
	text := n.noNode.Expand(name)
	begin, at := 0, 0
	for {
		i := strings.Index(text[at:], "${")
		if i < 0 {
			return append(texts, text[begin:]), refs
		}
		at += i + len("${")
		ref, length := reference(text[at:])
		if _, known := n.noNode.lookup(ref); length == 0 || known {
			continue
		}
		texts, refs = append(texts, text[begin:at-len("${")]), append(refs, strings.TrimPrefix(ref, "env."))
		at += length
		begin = at
	}
}

// OfNode reports whether a reference is one to the registration of the node.
func OfNode(ref string) bool {
	for _, prefix := range []string{"attr.", "meta.", "node."} {
		if strings.HasPrefix(ref, prefix) {
			return true
		}
	}
	return ref == "NOMAD_DC" || ref == parentCgroup
}

// fits reports whether a text consists of two or more parts, in order, with any text between them.
func fits(text string, parts []string) bool {
	text, ok := strings.CutPrefix(text, parts[0])
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		if ok {
			_, text, ok = strings.Cut(text, part)
		}
	}
	return ok && strings.HasSuffix(text, parts[last])
}
