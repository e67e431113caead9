from quiver_fast.arrow.run.course import Course

class Endpoint:
    course: Course
    def transfer(self, timeout: float) -> None: ...
