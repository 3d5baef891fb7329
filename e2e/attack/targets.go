package attack

// Targets is what lies around the probe: made by the test, written as JSON, read by the
// probe. Process numbers are those of the host. All files are open to everyone by their
// modes, unless said otherwise, so that modes hide nothing.
type Targets struct {
	Root       int // a process of root's outside
	User       int // one of the user that the named situations run as
	UserID     int // and its uid
	Agent      int
	Supervisor int
	Neighbour  int // a task of another allocation
	Init       int // in place of process 1; 0 is that, which a probe without a PID namespace of its own leaves alone

	Dir     string // ungranted, with what layOut puts there
	HostTmp string // a file in the host's /tmp
	Setuid  string // this program, setuid root, granted
	DataDir string // of the agent

	NeighbourDir string   // directory of the neighbour's allocation
	NeighbourGrp string   // a control group directory of the neighbour
	OwnGroups    []string // the probe's own, with ALLOC where its allocation's ID stands

	Abstract, AbstractDgram string // abstract sockets
	Socket, SocketDgram     string // sockets in Dir
	SupervisorSocket        string
	RunSocket               string // a socket in /run that is open to all
	SessionSocket           string // in the /run/user directory of the user, open to all by its own mode

	Shm, Sem, Msg int    // System V IPC, all with mode 0666
	Queue         string // a POSIX message queue
	DevShm        string // a file in /dev/shm

	TCP, UDP int    // ports on 127.0.0.1 that are listened on
	HTTP     int    // the agent's API
	Canary   string // stands in the agent's environment, in secrets, in the victims' memory
}

// Names below Targets.Dir. Each operation that changes something has its own.
const (
	plainFile  = "plain"      // 0666
	ownedFile  = "owned"      // 0644, the named user's
	ownedDir   = "owned-dir"  // 0755, the named user's
	program    = "program"    // 0755, this program
	linkFile   = "link"       // symlink to plain
	openDir    = "open"       // 0777
	removeFile = "open/gone"  // 0666
	renameFile = "open/moved" // 0666
	truncFile  = "open/long"  // 0666, not empty
	hardFile   = "open/hard"  // 0666
)
