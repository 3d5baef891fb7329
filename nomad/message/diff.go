package message

// The types of a diff.
const (
	DiffTypeNone    DiffType = "None"
	DiffTypeAdded   DiffType = "Added"
	DiffTypeDeleted DiffType = "Deleted"
	DiffTypeEdited  DiffType = "Edited"
)

// DiffType is None, Added, Deleted or Edited.
type DiffType string

// FieldDiff is the difference of one value, with both values as strings.
type FieldDiff struct {
	Type        DiffType
	Name        string
	Old         string
	New         string
	Annotations []string
}

// JobDiff is the difference between two versions of a job.
type JobDiff struct {
	Type       DiffType
	ID         string
	Fields     []*FieldDiff
	Objects    []*ObjectDiff
	TaskGroups []*TaskGroupDiff
}

// ObjectDiff is the difference of one block.
type ObjectDiff struct {
	Type    DiffType
	Name    string
	Fields  []*FieldDiff
	Objects []*ObjectDiff
}

// TaskDiff is the difference of a task. Annotations describe the effects of the change.
type TaskDiff struct {
	Type        DiffType
	Name        string
	Fields      []*FieldDiff
	Objects     []*ObjectDiff
	Annotations []string
}

// TaskGroupDiff is the difference of a group. Updates counts the affected allocations by kind of update.
type TaskGroupDiff struct {
	Type    DiffType
	Name    string
	Fields  []*FieldDiff
	Objects []*ObjectDiff
	Tasks   []*TaskDiff
	Updates map[string]uint64
}
