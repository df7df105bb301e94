"""What stays on disk: the journal, the artifact trees and the record of each session."""
