package acl

import (
	"fmt"
	"strings"
)

// Question is a request for a right. Ask and Explain decide on it.
type Question struct {
	Kind Kind
	// Namespace is the namespace of a variable. It is empty for other kinds.
	Namespace string
	// Name is the name of the object, or the path of a variable. It is empty for kinds
	// without names, and for a right on any object.
	Name string
	// Rights are the requested rights. One of them is enough. Nodes, agents, quotas and
	// operators have the rights read and write, plugins have list and read.
	Rights []string
	// Workload is nil if the caller is not a workload. It is used only for variables.
	Workload *Workload
}

// AnyRight as the only right of a question means any of the rights of the kind.
const AnyRight = "any right"

// InNamespace returns a question for one of the rights in a namespace.
func InNamespace(namespace string, ops ...NamespaceCapability) Question {
	return Question{Kind: Namespaces, Name: namespace, Rights: texts(ops)}
}

// OfVariable returns a question for a right on the variable with the path.
func OfVariable(namespace, path string, op VariableCapability) Question {
	return Question{Kind: Variables, Namespace: namespace, Name: path, Rights: []string{string(op)}}
}

// OfNodePool returns a question for a right on a node pool.
func OfNodePool(pool string, op NodePoolCapability) Question {
	return Question{Kind: NodePools, Name: pool, Rights: []string{string(op)}}
}

// OfHostVolume returns a question for a right on the host volumes with the name.
func OfHostVolume(name string, op HostVolumeCapability) Question {
	return Question{Kind: HostVolumes, Name: name, Rights: []string{string(op)}}
}

// OfOperator returns a question for one of the rights of an operator.
func OfOperator(ops ...OperatorCapability) Question {
	return Question{Kind: Operators, Rights: texts(ops)}
}

// ToRead returns a question for the right to read objects of a kind without names: nodes,
// agents, operators, quotas or plugins.
func ToRead(kind Kind) Question { return Question{Kind: kind, Rights: []string{wordRead}} }

// ToWrite returns a question for the right to change objects of a kind without names.
func ToWrite(kind Kind) Question { return Question{Kind: kind, Rights: []string{wordWrite}} }

// InAny returns a question for any right on the object with the name.
func InAny(kind Kind, name string) Question {
	return Question{Kind: kind, Name: name, Rights: []string{AnyRight}}
}

func texts[T ~string](ops []T) []string {
	out := make([]string, len(ops))
	for i, op := range ops {
		out[i] = string(op)
	}
	return out
}

// String returns a text such as: read-job in namespace "prod".
func (q Question) String() string {
	what := strings.Join(q.Rights, " or ")
	switch {
	case q.Kind == Variables:
		return fmt.Sprintf("%s of variable %q in namespace %q", what, q.Name, q.Namespace)
	case q.Kind == Namespaces && q.Name == "":
		return what + " in any namespace"
	case q.Name == "" && (q.Kind == NodePools || q.Kind == HostVolumes):
		return fmt.Sprintf("%s of any %s", what, q.Kind)
	case q.Name == "":
		return fmt.Sprintf("%s of %s", what, q.Kind)
	case q.Kind == Namespaces:
		return fmt.Sprintf("%s in namespace %q", what, q.Name)
	}
	return fmt.Sprintf("%s of %s %q", what, q.Kind, q.Name)
}

// query converts the question. Its words are nil for an unknown kind.
func (q Question) query() query {
	words := vocabularies[q.Kind]
	if words == nil {
		return query{}
	}
	want := wanted(words, q.Rights)
	if len(q.Rights) == 1 && q.Rights[0] == AnyRight {
		want = anyRight
	}
	return query{words: words, space: q.Namespace, name: q.Name, want: want, workload: q.Workload}
}

// Ask reports whether the ACL allows what q requests.
func (a *ACL) Ask(q Question) bool {
	bits := q.query()
	return bits.words != nil && a.allow(bits)
}

// AskAnywhere reports whether a rule grants one of the rights on any object of the kind. It
// ignores the name. A closer rule can still deny the right.
func (a *ACL) AskAnywhere(q Question) bool {
	bits := q.query()
	if a == nil || a.management || bits.words == nil {
		return a.IsManagement() && bits.words != nil
	}
	return a.rules(q.Kind).grantAny(bits.want)
}
