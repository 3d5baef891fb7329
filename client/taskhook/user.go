package taskhook

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/hostuser"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// userHookName is the name of the user hook, under which its state is stored.
const userHookName = "user"

// stateUID is the key of an assigned uid in a hook's state.
const stateUID = "dynamic_uid"

// userHook determines the user of the task: the one in the job, or a uid assigned to the
// allocation if the driver supports it.
type userHook struct {
	users   Users
	dynamic bool
	image   bool   // the task has the users of its image
	user    string // of a task without one, "" for none
}

func newUserHook(c Config) hook.Hook {
	return &userHook{users: c.Users, dynamic: c.Capabilities.DynamicWorkloadUsers,
		image: c.Capabilities.FSIsolation == drivers.FSIsolationImage, user: c.Capabilities.DefaultUser}
}

func (*userHook) Name() string { return userHookName }

func (h *userHook) Prestart(_ context.Context, req *TaskPrestartRequest, resp *TaskPrestartResponse) error {
	switch {
	case h.image:
		resp.Owner = ofImage(req.Task.User)
	case req.Task.User != "" || h.user != "":
		owner, err := h.named(cmp.Or(req.Task.User, h.user))
		if err != nil {
			return &Fault{Type: nomad.TaskFailedValidation, Err: err}
		}
		resp.Owner = owner
	case h.dynamic && os.Geteuid() == 0: // only root can change owners of files
		uid, err := h.assign(req)
		if err != nil {
			return &drivers.RecoverableError{Err: err}
		}
		resp.State = map[string]string{stateUID: strconv.Itoa(uid)}
		resp.Owner = &Owner{User: hostuser.DynamicName(uint32(uid)), UID: uid, GID: uid}
	default:
		resp.Owner = &Owner{UID: -1, GID: -1}
	}
	return nil
}

// ofImage returns the owner of the files of a task in an image. Only the image knows its names: the
// files of such a user, or of none, belong to the agent. So its secrets stay unreadable for others on the host.
func ofImage(user string) *Owner {
	owner := &Owner{User: user, UID: -1, GID: -1}
	name, group, both := strings.Cut(user, ":")
	uid, err := strconv.ParseUint(name, 10, 31)
	if err != nil {
		return owner
	}
	owner.UID = int(uid)
	if gid, err := strconv.ParseUint(group, 10, 31); both && err == nil {
		owner.GID = int(gid)
	}
	return owner
}

// assign returns the previous uid of the task, or a new one.
func (h *userHook) assign(req *TaskPrestartRequest) (int, error) {
	if uid, ok := AssignedUID(req.PreviousState); ok {
		return uid, h.users.Claim(uid, req.Alloc.ID)
	}
	return h.users.Assign(req.Alloc.ID)
}

// AssignedUID returns the assigned uid in the stored state of the user hook.
func AssignedUID(state map[string]string) (int, bool) {
	uid, err := strconv.Atoi(state[stateUID])
	return uid, err == nil
}

// AssignedUser returns the assigned uid in the stored states of a task's hooks.
func AssignedUser(hooks map[string]*state.HookState) (int, bool) {
	if s := hooks[userHookName]; s != nil {
		return AssignedUID(s.Data)
	}
	return 0, false
}

// UserState returns the stored states of hooks with an assigned uid.
func UserState(uid string) map[string]*state.HookState {
	return map[string]*state.HookState{userHookName: {Data: map[string]string{stateUID: uid}}}
}

// named looks up a user of the system, by name or number. Uids of the client's pool are
// refused, because they belong to other tasks.
func (h *userHook) named(word string) (*Owner, error) {
	if hostuser.IsDynamic(word) {
		return nil, fmt.Errorf("user %q is a dynamic workload user of the client: use another user", word)
	}
	u, err := hostuser.Lookup(word)
	if err != nil {
		return nil, err
	}
	owner := &Owner{User: word, UID: int(u.UID), GID: int(u.GID)}
	if h.users.Contains(owner.UID) || h.users.Contains(owner.GID) {
		return nil, fmt.Errorf("user %q is in the client's range of dynamic workload users: use another user", word)
	}
	return owner, nil
}
