// Package crash disturbs programs that change files. A Recorder keeps what a program does to the files below a folder,
// and tells the states in which a power failure may leave them at each moment. Faults lets single calls fail. Tests
// call Disturb, which tries both with a program, as long as the flags of the test say.
//
// The model is the model of ALICE (Pillai et al., All File Systems Are Not Created Equal, OSDI 2014). What is written
// to a file is lasting after its Sync. Before, a failure may leave all of it, nothing, zeros in its place, its first
// half, or all but a block of zeros: of all files alike, or of one file alone. A name that is made, changed or removed
// is lasting after SyncDir of its folder. Before, a failure may leave the changes up to a point, as ext4 and XFS do,
// or, as POSIX allows, all but one or one alone.
package crash
