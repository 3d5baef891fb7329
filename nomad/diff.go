package nomad

// DiffType holds the fields of a diff type.
type DiffType string

// FieldDiff holds the fields of a field diff.
type FieldDiff struct {
	Type        DiffType
	Name        string
	Old         string
	New         string
	Annotations []string
}

// JobDiff holds the fields of a job diff.
type JobDiff struct {
	Type       DiffType
	ID         string
	Fields     []*FieldDiff
	Objects    []*ObjectDiff
	TaskGroups []*TaskGroupDiff
}

// ObjectDiff holds the fields of an object diff.
type ObjectDiff struct {
	Type    DiffType
	Name    string
	Fields  []*FieldDiff
	Objects []*ObjectDiff
}

// TaskDiff holds the fields of a task diff.
type TaskDiff struct {
	Type        DiffType
	Name        string
	Fields      []*FieldDiff
	Objects     []*ObjectDiff
	Annotations []string
}

// TaskGroupDiff holds the fields of a task group diff.
type TaskGroupDiff struct {
	Type    DiffType
	Name    string
	Fields  []*FieldDiff
	Objects []*ObjectDiff
	Tasks   []*TaskDiff
	Updates map[string]uint64
}
