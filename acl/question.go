package acl

import (
	"fmt"
	"strings"
)

// Question is one thing that a caller wants to do. Ask and Explain answer it.
type Question struct {
	Kind Kind
	// Namespace is that of a variable, else empty.
	Namespace string
	// Name is that of the thing, or the path of the variable; empty for the kinds that
	// have no names.
	Name string
	// Rights is what is asked for; one of them is enough. The rights of nodes, agents,
	// quotas and operators are called read and write, those of plugins list and read.
	Rights []string
	// Workload is nil for who is no workload. It matters for variables only.
	Workload *Workload
}

// AnyRight, alone among the rights of a question, asks whether the caller has any.
const AnyRight = "any right"

// InNamespace asks for one of the rights in a namespace.
func InNamespace(namespace string, ops ...NamespaceCapability) Question {
	return Question{Kind: Namespaces, Name: namespace, Rights: texts(ops)}
}

// OfVariable asks for a right on the variable of exactly this path.
func OfVariable(namespace, path string, op VariableCapability) Question {
	return Question{Kind: Variables, Namespace: namespace, Name: path, Rights: []string{string(op)}}
}

// OfNodePool asks for a right on a node pool.
func OfNodePool(pool string, op NodePoolCapability) Question {
	return Question{Kind: NodePools, Name: pool, Rights: []string{string(op)}}
}

// OfHostVolume asks for a right on the host volumes of a name.
func OfHostVolume(name string, op HostVolumeCapability) Question {
	return Question{Kind: HostVolumes, Name: name, Rights: []string{string(op)}}
}

// OfOperator asks for one of the rights of an operator; OperatorRead and OperatorWrite
// are two of them.
func OfOperator(ops ...OperatorCapability) Question {
	return Question{Kind: Operators, Rights: texts(ops)}
}

// ToRead and ToWrite ask for what the kinds without names know: those of nodes, agents,
// operators, quotas and plugins.
func ToRead(kind Kind) Question { return Question{Kind: kind, Rights: []string{wordRead}} }

// ToWrite asks for the right to change things of the kind.
func ToWrite(kind Kind) Question { return Question{Kind: kind, Rights: []string{wordWrite}} }

// InAny asks whether the caller has any right on the thing of this name.
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

// String returns what is asked for, such as: read-job in namespace "prod".
func (q Question) String() string {
	what := strings.Join(q.Rights, " or ")
	switch {
	case q.Kind == Variables:
		return fmt.Sprintf("%s of variable %q in namespace %q", what, q.Name, q.Namespace)
	case q.Name == "":
		return fmt.Sprintf("%s of %s", what, q.Kind)
	case q.Kind == Namespaces:
		return fmt.Sprintf("%s in namespace %q", what, q.Name)
	}
	return fmt.Sprintf("%s of %s %q", what, q.Kind, q.Name)
}

// query is the question in bits. The words are nil when there is no such kind.
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

// Ask answers a question.
func (a *ACL) Ask(q Question) bool {
	bits := q.query()
	return bits.words != nil && a.allow(bits)
}

// AskAnywhere reports whether policies grant one of the rights of a question on some thing of
// its kind, whatever its name. A closer rule may deny it there.
func (a *ACL) AskAnywhere(q Question) bool {
	bits := q.query()
	if a == nil || a.management || bits.words == nil {
		return a.IsManagement() && bits.words != nil
	}
	return a.rules(q.Kind).grantAny(bits.want)
}
